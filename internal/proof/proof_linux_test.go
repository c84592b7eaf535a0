// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"context"
	"crypto/rand"
	"errors"
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/locks"
)

// bench runs witnesses in a bubble.
type bench struct {
	t        *testing.T
	server   *apitest.Server
	requests []string
	refuse   bool // all requests
	said     []string
}

func heard(t *testing.T, f func(*bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, server: apitest.NewServer()}
		b.server.Before = func(verb, path string) (int, apitest.Object) {
			b.requests = append(b.requests, verb+" "+path)
			if b.refuse {
				return apitest.Forbidden(verb, path)
			}
			return 0, nil
		}
		f(b)
	})
}

func (b *bench) witness(pod, uid string) *Witness {
	return New(Config{
		Lock: "ns/lock", Namespace: "ns", PodName: pod, PodUID: uid,
		Pods:   apitest.Wire(b.t, b.server, corev1.SchemeGroupVersion),
		Logger: funcr.New(func(_, line string) { b.said = append(b.said, line) }, funcr.Options{}),
	})
}

// report makes the kubelet report that state of container id for pod op.
func (b *bench) report(uid, id string, state corev1.ContainerState) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}}
	pod.Name, pod.Namespace, pod.UID = "op", "ns", types.UID(uid)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{statusOf("main", id, state, corev1.ContainerState{})}
	b.server.Put("/api/v1/namespaces/ns/pods/op", pod)
}

// ask asks w whether a holder is dead. It returns a function that waits until all is quiet,
// and returns the answer so far.
func (b *bench) ask(w *Witness, holder locks.Suspect) func() (answer error, answered bool) {
	ctx, cancel := context.WithCancel(b.t.Context())
	answers := make(chan error, 1)
	go func() { answers <- w.Dead(ctx, holder) }()
	b.t.Cleanup(cancel)
	return func() (error, bool) {
		synctest.Wait()
		select {
		case err := <-answers:
			answers <- err
			return err, true
		default:
			return nil, false
		}
	}
}

func suspect(pod string, noted locks.ProcessID) locks.Suspect {
	name, uid, _ := strings.Cut(pod, "/")
	return locks.Suspect{Details: locks.Details{Holder: "holder", Pod: locks.Pod{Name: name, UID: uid}, ProcessID: noted}, Acquired: at(10), Early: true}
}

func (b *bench) want(what string, ask func() (error, bool), err error, answered bool) {
	b.t.Helper()
	if got, is := ask(); is != answered || !errors.Is(got, err) {
		b.t.Errorf("%s: it answered %v: %v", what, is, got)
	}
}

func TestWhoGetsTheProcessLockOfTheHolderHasProof(t *testing.T) {
	heard(t, func(b *bench) {
		uid := rand.Text()
		old, next := b.witness("op", uid), b.witness("op", uid)
		noted := old.ProcessID()
		if noted.ProcessLock == "" || next.ProcessID().ProcessLock != "" {
			t.Fatalf("the first notes %q, the second %q", noted.ProcessLock, next.ProcessID().ProcessLock)
		}
		// The holder is alive: this process has the process lock, through a single Witness.
		ask := b.ask(next, suspect("op/"+uid, noted))
		time.Sleep(time.Minute)
		b.want("its former self lives", ask, nil, false)

		b.want("its former self is dead", b.ask(old, suspect("op/"+uid, noted)), nil, true)
		place, _ := path.Split(noted.ProcessLock)
		for what, holder := range map[string]locks.Suspect{
			"another pod":               suspect("op/other", noted),
			"another boot or namespace": suspect("op/"+uid, locks.ProcessID{ProcessLock: "1" + noted.ProcessLock}),
			"another socket":            suspect("op/"+uid, locks.ProcessID{ProcessLock: noted.ProcessLock + "1"}),
			"only a place":              suspect("op/"+uid, locks.ProcessID{ProcessLock: path.Clean(place)}),
			"no process lock":           suspect("op/"+uid, locks.ProcessID{}),
			"no pod":                    suspect("", noted),
		} {
			b.want(what, b.ask(old, holder), errUnknown, true)
		}
		for what, differ := range map[string]func(*Config){
			"of another lock":  func(c *Config) { c.Lock = "ns/other" },
			"of another scope": func(c *Config) { c.Scope = "shared" },
		} {
			w := b.witness("op", uid)
			differ(&w.config)
			b.want(what, b.ask(w, suspect("op/"+uid, noted)), errUnknown, true)
			if w.ProcessID().ProcessLock == "" {
				t.Errorf("who is %s has no process lock of its own", what)
			}
		}
		b.want("no own pod", b.ask(b.witness("", ""), suspect("/", noted)), errUnknown, true)
		if len(b.requests) > 0 {
			t.Errorf("it asked the server: %q", b.requests)
		}
	})
}

// TestAProcessLockInAnotherPlaceIsNoProof: the thread that took it may be in another network
// namespace than the thread that asked which one to take.
func TestAProcessLockInAnotherPlaceIsNoProof(t *testing.T) {
	heard(t, func(b *bench) {
		w := b.witness("op", rand.Text())
		taken := w.ProcessID()
		for noted, want := range map[string]error{taken.ProcessLock: nil, "1" + taken.ProcessLock: errUnknown} {
			if err := w.awaitLock(b.t.Context(), suspect("op/u", locks.ProcessID{ProcessLock: noted})); !errors.Is(err, want) {
				b.t.Errorf("it has %s, and says of a holder that had %s: %v", taken.ProcessLock, noted, err)
			}
		}
	})
}

func TestWhoSeesTheReportOfTheHoldersEndHasProof(t *testing.T) {
	heard(t, func(b *bench) {
		b.report("u", "c2", running(9))
		ask := b.ask(b.witness("other", rand.Text()), suspect("op/u", locks.ProcessID{ContainerID: "c2"}))
		time.Sleep(time.Hour) // watches end meanwhile
		b.want("it runs", ask, nil, false)
		b.report("u", "c1", ended("c1", 20))
		b.want("another has ended", ask, nil, false)
		b.report("u", "c2", ended("c2", 20))
		b.want("it has ended", ask, nil, true)
		for _, r := range b.requests {
			if r != "watch /api/v1/namespaces/ns/pods" {
				t.Errorf("it asked for %s", r)
			}
		}
	})
}

func TestWhatProvesNothingIsNotAskedFor(t *testing.T) {
	heard(t, func(b *bench) {
		w := b.witness("other", rand.Text())
		late := suspect("op/u", locks.ProcessID{ContainerID: "c2"})
		late.Early = false
		b.want("others go first", b.ask(w, late), errLate, true)
		b.want("no container ID", b.ask(w, suspect("op/u", locks.ProcessID{})), errUnknown, true)
		b.want("no UID", b.ask(w, suspect("op/", locks.ProcessID{ContainerID: "c2"})), errUnknown, true)
		if len(b.requests) > 0 {
			t.Errorf("it asked the server: %q", b.requests)
		}
	})
}

func TestAPodThatIsGoneOrAnotherProvesNothing(t *testing.T) {
	heard(t, func(b *bench) {
		w := b.witness("other", rand.Text())
		b.report("namesake", "c2", ended("c2", 20))
		ask := b.ask(w, suspect("op/u", locks.ProcessID{ContainerID: "c2"}))
		b.want("it has another UID", ask, nil, false)
		b.server.Delete("/api/v1/namespaces/ns/pods/op")
		b.want("it is gone", ask, errGone, true)
	})
}

func TestAMissingPermissionIsToldOnce(t *testing.T) {
	heard(t, func(b *bench) {
		b.refuse = true
		w := b.witness("op", rand.Text())
		for _, id := range []string{"c1", "c2"} {
			b.want("it is forbidden", b.ask(w, suspect("op/u", locks.ProcessID{ContainerID: id})), locks.ErrForbidden, true)
		}
		w.ProcessID()
		w.FindContainer(b.t.Context())
		if len(b.said) != 2 || !strings.Contains(b.said[0], `needs verb \"watch\" on pod`) || !strings.Contains(b.said[1], `needs verb \"get\" on pod`) {
			t.Errorf("it said %q", b.said)
		}
		if len(b.requests) != 3 {
			t.Errorf("it asked %q", b.requests)
		}
	})
}

// TestALeaderFindsOutItsContainerOnceTheKubeletHasReportedIt, and only the leader asks.
func TestALeaderFindsOutItsContainerOnceTheKubeletHasReportedIt(t *testing.T) {
	heard(t, func(b *bench) {
		uid := rand.Text()
		w := b.witness("op", uid)
		attended := make(chan struct{})
		go func() { w.FindContainer(b.t.Context()); close(attended) }()
		time.Sleep(time.Hour)
		if synctest.Wait(); len(b.requests) > 0 {
			t.Errorf("a follower asks %q", b.requests)
		}
		b.report(uid, "c1", corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}) // started long ago
		w.ProcessID()
		time.Sleep(10 * time.Second)
		if id := w.ProcessID().ContainerID; id != "" {
			t.Errorf("it notes %q, of a former instance", id)
		}
		b.report(uid, "c2", corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}})
		<-attended
		if id := w.ProcessID().ContainerID; id != "c2" {
			t.Errorf("it notes %q", id)
		}
		n := len(b.requests)
		time.Sleep(time.Hour)
		if len(b.requests) != n || len(b.said) > 0 {
			t.Errorf("then it asks %d times more, and says %q", len(b.requests)-n, b.said)
		}
	})
}

func TestAProcessWhoseEndProvesNothingNotesNothing(t *testing.T) {
	heard(t, func(b *bench) {
		uid := rand.Text()
		b.report(uid, "c1", corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}})
		w := b.witness("op", uid)
		w.config.WorkOutlivesProcess = true
		w.ProcessID()
		w.FindContainer(b.t.Context())
		if id := w.ProcessID(); id != (locks.ProcessID{}) || len(b.requests) > 0 {
			t.Errorf("it notes %+v, and asks %q", id, b.requests)
		}
	})
}
