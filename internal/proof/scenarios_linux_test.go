// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/locks"
)

// candidate is a process, or an election in it.
type candidate struct {
	Pod, UID, Container string
	Lock, Scope         string
	WorkOutlivesProcess bool
	First               bool // of a PID namespace
	Child               bool // it starts a process that outlives it
	Here                bool // an election in the process of the test, which does not end
	Apart               bool // it looks from a network namespace of its own
}

// What proves the death of a holder; nothing by default.
const (
	byLock   = "its process lock was free"
	byReport = "the kubelet has reported"
)

// scenario is how a holder and a candidate stand to each other, and what the candidate learns.
type scenario struct {
	name string
	// set says what differs from two starts of one process, the only one of its pod.
	set func(holder, next *candidate)
	// beside says that the candidate asks while the holder lives. It does so once more, after
	// the holder's end.
	beside bool
	// lives says that the holder does not end, whatever is reported.
	lives bool
	// pod is the holder's on the server, while its container runs; nil means none.
	pod func(*corev1.Pod)
	// mounts are those that the holder's process has.
	mounts string
	// noted changes what the record says.
	noted func(*locks.ProcessID)
	// reported is what is on the server after the holder's end.
	reported func(b *bench, holder *corev1.Pod)
	want     string
}

var scenarios = []scenario{
	{name: "the container restarts", set: func(h, _ *candidate) { h.First = true }, want: byLock},
	{name: "the container restarts, and the pod has two", set: func(h, n *candidate) { h.First, h.Container, n.Container = true, "main", "main" }, want: byLock},
	{name: "the process restarts under a supervisor", pod: only, want: byLock},
	{name: "the process has ended under a supervisor, and another pod asks", set: fromAnotherPod, beside: true, pod: only},
	{name: "a second process in the container", beside: true, want: byLock},
	{name: "a second container, beside a process that a shell has started", set: inAnotherContainer, beside: true, want: byLock},
	{name: "a second container, beside the first process of a container", set: func(h, n *candidate) { h.First = true; inAnotherContainer(h, n) }, beside: true},
	{name: "the same, and the kubelet reports the end", set: func(h, n *candidate) { h.First = true; inAnotherContainer(h, n) }, beside: true, pod: only, reported: end, want: byReport},
	{name: "a second container, beside the first process of a container, and neither knows its name", set: func(h, _ *candidate) { h.First = true }, beside: true},
	{name: "a second container that starts when the first process of a container has ended", set: func(h, n *candidate) { h.First = true; inAnotherContainer(h, n) }},
	{name: "network namespaces apart", set: func(_, n *candidate) { n.Apart = true }},
	{name: "a Group of the same name", set: func(h, n *candidate) { h.Scope, n.Scope = "shared", "shared" }, beside: true, want: byLock},
	{name: "a Group of another name", set: func(h, n *candidate) { h.Scope, n.Scope, n.Lock = "shared", "shared", "ns/two" }, beside: true},
	{name: "an election beside a Group of its name", set: func(h, _ *candidate) { h.Scope = "shared" }, beside: true},
	{name: "an election for another lock", set: func(_, n *candidate) { n.Lock = "ns/two" }, beside: true},
	{name: "a second election for the lock in the process", set: func(h, _ *candidate) { h.Here = true }, beside: true},
	{name: "unfinished work goes on, and its process campaigns again", set: func(h, _ *candidate) { h.Here = true }},
	{name: "another pod in the node's network namespace", set: fromAnotherPod, beside: true},
	{name: "the pod was recreated under its name", set: func(_, n *candidate) { n.UID = rand.Text() }, pod: only, reported: func(b *bench, pod *corev1.Pod) {
		pod.UID = "anew"
		end(b, pod)
	}},
	{name: "a static pod restarts", pod: mirror, want: byLock},
	{name: "a static pod has ended, and another pod asks", set: fromAnotherPod, beside: true, pod: mirror, reported: end},
	{name: "the pod's containers share processes, and one restarts", pod: together, want: byLock},
	{name: "the pod's containers share processes, one has ended, and another pod asks", set: fromAnotherPod, beside: true, pod: together, reported: end},
	{name: "the container has ended, and another pod asks", set: fromAnotherPod, beside: true, pod: only, reported: end, want: byReport},
	{name: "another pod of the name has ended", set: fromAnotherPod, beside: true, lives: true, pod: only, reported: func(b *bench, pod *corev1.Pod) {
		pod.UID = "anew"
		end(b, pod)
	}},
	{name: "the pod was deleted by force", set: fromAnotherPod, beside: true, pod: only, reported: func(b *bench, pod *corev1.Pod) {
		b.server.Delete("/api/v1/namespaces/ns/pods/" + pod.Name)
	}},
	{
		name: "CONTAINER_NAME is that of another container, which ends", set: func(h, n *candidate) { fromAnotherPod(h, n); h.Container = "main" },
		beside: true, lives: true, pod: two, mounts: "second", reported: end,
	},
	{
		name: "the same in a pod of one container, whose debugger runs a copy", set: fromAnotherPod,
		beside: true, lives: true, pod: only, mounts: "debugger-x", reported: end,
	},
	{name: "the container that ends is its own by name and mounts", set: func(h, n *candidate) { fromAnotherPod(h, n); h.Container = "main" }, beside: true, pod: two, mounts: "main", reported: end, want: byReport},
	{name: "a child outlives the process", set: func(h, _ *candidate) { h.Child = true }, want: byLock},
	{name: "a child outlives the process, which says so", set: func(h, _ *candidate) { h.Child, h.WorkOutlivesProcess = true, true }, beside: true, pod: only, reported: end},
	{name: "the record has a place alone, as earlier versions noted it", noted: func(id *locks.ProcessID) { id.ProcessLock = path.Dir(id.ProcessLock) }},
	{name: "the record is from before a restart of the node", noted: func(id *locks.ProcessID) { id.ProcessLock = "1" + id.ProcessLock }},
}

func fromAnotherPod(_, next *candidate)          { next.Pod, next.UID = "other", rand.Text() }
func inAnotherContainer(holder, next *candidate) { holder.Container, next.Container = "main", "second" }

func only(*corev1.Pod) {}
func two(pod *corev1.Pod) {
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "second"})
}
func mirror(pod *corev1.Pod)   { pod.UID = "mirror" }
func together(pod *corev1.Pod) { yes := true; pod.Spec.ShareProcessNamespace = &yes }

// end has the kubelet report the end of the container.
func end(b *bench, pod *corev1.Pod) {
	pod.Status.ContainerStatuses[0] = statusOf("main", "c1", ended("c1", time.Since(at(0)).Seconds()+1), corev1.ContainerState{})
	b.server.Put("/api/v1/namespaces/ns/pods/"+pod.Name, pod)
}

// TestAProofNamesExactlyWhatHasEnded in each scenario, and no holder is dead while it lives.
func TestAProofNamesExactlyWhatHasEnded(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) { heard(t, s.play) })
	}
}

func (s scenario) play(b *bench) {
	h := candidate{Pod: "op", UID: rand.Text(), Lock: "ns/one"}
	n := h
	if s.set != nil {
		s.set(&h, &n)
	}
	id, kill := b.hold(h)
	next := b.elect(n)
	var pod *corev1.Pod
	if s.pod != nil {
		pod = b.run(h, s.pod)
		id.ContainerID = b.containerOf(h, s.mounts)
	}
	if s.noted != nil {
		s.noted(&id)
	}
	if (id.ProcessLock == "") != h.WorkOutlivesProcess {
		b.t.Fatalf("the holder notes %+v", id)
	}
	b.said = nil
	holder := suspect(h.Pod+"/"+h.UID, id)
	holder.Acquired = time.Now()
	ask := func() func() (error, bool) {
		if !n.Apart {
			return b.ask(next, holder)
		}
		err := b.askFromApart(next, holder)
		return func() (error, bool) { return err, true }
	}
	if s.beside || h.Here {
		answer := ask()
		if s.lives {
			s.report(b, pod)
		}
		time.Sleep(time.Minute)
		if err, answered := answer(); answered && err == nil {
			b.t.Fatal("TWO LEADERS: it is declared dead, and lives")
		}
		if s.lives || h.Here {
			return
		}
		kill()
		s.report(b, pod)
		time.Sleep(time.Second)
		if err, answered := answer(); answered && err == nil {
			s.judge(b)
			return
		}
	} else {
		kill()
		s.report(b, pod)
	}
	answer := ask() // as when the peers, or the record, have changed
	time.Sleep(time.Hour)
	if err, answered := answer(); !answered || err != nil {
		b.said = nil
	}
	s.judge(b)
}

func (s scenario) report(b *bench, pod *corev1.Pod) {
	if s.reported != nil {
		s.reported(b, pod)
	}
}

// judge compares the proof that was given with the one that is wanted.
func (s scenario) judge(b *bench) {
	b.t.Helper()
	got := strings.Join(b.said, "\n")
	if (s.want == "") != (got == "") || !strings.Contains(got, s.want) {
		b.t.Errorf("the proof is %q, want %q", got, s.want)
	}
}

// elect returns the witness of a candidate in this process.
func (b *bench) elect(c candidate) *Witness {
	w := b.witness(c.Pod, c.UID)
	w.config.Lock, w.config.Scope, w.config.Container, w.config.WorkOutlivesProcess = c.Lock, c.Scope, c.Container, c.WorkOutlivesProcess
	return w
}

// run puts the pod of a candidate on the server, whose container has just started.
func (b *bench) run(c candidate, change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}}
	pod.Name, pod.Namespace, pod.UID = c.Pod, "ns", types.UID(c.UID)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{statusOf("main", "c1", corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}, corev1.ContainerState{})}
	change(pod)
	b.server.Put("/api/v1/namespaces/ns/pods/"+c.Pod, pod)
	return pod
}

// containerOf returns the ID that a candidate notes whose mounts are a container's; empty means
// that there are none.
func (b *bench) containerOf(c candidate, mounted string) string {
	w := b.elect(c)
	if mounted != "" {
		w.mounts = mountsOf(c.UID, mounted)
	}
	w.config.Lock += " of another name" // the holder has that one
	w.ProcessID()
	w.FindContainer(b.t.Context())
	return w.ProcessID().ContainerID
}

// askFromApart asks in a thread of a network namespace of its own.
func (b *bench) askFromApart(w *Witness, holder locks.Suspect) error {
	answers := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
			answers <- fmt.Errorf("%w: %w", errNotPermitted, err)
			return
		}
		answers <- w.Dead(b.t.Context(), holder)
	}()
	err := <-answers
	if errors.Is(err, errNotPermitted) {
		b.t.Skip(err)
	}
	return err
}

var errNotPermitted = errors.New("namespaces are not permitted here")

// envHolder makes this program a holder, and envChild its child.
const (
	envHolder = "PROOF_TEST_HOLDER"
	envChild  = "PROOF_TEST_CHILD"
)

// holding is what a holder says of itself.
type holding struct {
	Noted locks.ProcessID
	Child int
}

func TestMain(m *testing.M) {
	if os.Getenv(envChild) != "" {
		time.Sleep(time.Hour)
	}
	var c candidate
	switch err := json.Unmarshal([]byte(os.Getenv(envHolder)), &c); {
	case os.Getenv(envHolder) == "":
		os.Exit(m.Run())
	case err != nil:
		panic(err)
	}
	w := New(Config{Lock: c.Lock, Scope: c.Scope, PodName: c.Pod, PodUID: c.UID, Container: c.Container, WorkOutlivesProcess: c.WorkOutlivesProcess})
	w.first = w.first || c.First
	says := holding{Noted: w.ProcessID()}
	if c.Child {
		child := exec.Command("/proc/self/exe")
		child.Env = append(os.Environ(), envChild+"=1")
		if err := child.Start(); err != nil {
			panic(err)
		}
		says.Child = child.Process.Pid
	}
	if err := json.NewEncoder(os.Stdout).Encode(says); err != nil {
		panic(err)
	}
	time.Sleep(time.Hour)
}

// hold starts the process of a holder. It returns what that notes, and what ends it.
func (b *bench) hold(c candidate) (noted locks.ProcessID, kill func()) {
	if c.Here {
		return b.elect(c).ProcessID(), func() {}
	}
	self, err := json.Marshal(c)
	if err != nil {
		b.t.Fatal(err)
	}
	start := func(namespaces uintptr) (*exec.Cmd, io.Reader, error) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), envHolder+"="+string(self))
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
		out, err := cmd.StdoutPipe()
		if err != nil {
			b.t.Fatal(err)
		}
		return cmd, out, cmd.Start()
	}
	var own uintptr
	if c.First {
		if own = syscall.CLONE_NEWPID; os.Getuid() != 0 {
			own |= syscall.CLONE_NEWUSER
		}
	}
	cmd, out, err := start(own)
	if c.First && err != nil {
		b.t.Logf("the holder only says that it is the first process: %v: %v", errNotPermitted, err)
		cmd, out, err = start(0)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	end := func() {
		_ = cmd.Process.Kill()
		_, _ = cmd.Process.Wait()
	}
	b.t.Cleanup(end)
	var says holding
	if err := json.NewDecoder(out).Decode(&says); err != nil {
		b.t.Fatal(err)
	}
	if says.Child > 0 {
		child, err := os.FindProcess(says.Child)
		if err != nil {
			b.t.Fatal(err)
		}
		b.t.Cleanup(func() { _ = child.Kill() })
	}
	return says.Noted, end
}

// TestAProcessLockIsFreedByTheEndOfItsProcessAlone, even while its child lives on.
func TestAProcessLockIsFreedByTheEndOfItsProcessAlone(t *testing.T) {
	b := &bench{t: t}
	c := candidate{Pod: "op", UID: rand.Text(), Lock: "ns/one", Child: true}
	noted, kill := b.hold(c)
	next := New(Config{Lock: c.Lock, PodName: c.Pod, PodUID: c.UID})
	if id := next.ProcessID(); id.ProcessLock != "" {
		t.Errorf("taken while it is held: %+v", id)
	}
	kill()
	if id := next.ProcessID(); id != noted {
		t.Errorf("after the end of its process the next one notes %+v, want %+v", id, noted)
	}
}
