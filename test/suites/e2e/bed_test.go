// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e_test holds real programs against a real control plane. The files without a build tag are
// the gate's: their tests share one control plane of three zones, and run at the same time, each in a
// namespace of its own. They hold order, content, tokens and revisions, lower bounds by one clock, and
// one upper bound for all, soon. The others have the build tag long.
package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// version is the environment variable with the version of Kubernetes; see testbed.Config.
const version = "ZONELECT_KUBERNETES"

// soon bounds what must happen in the end, on however busy a machine.
const soon = 2 * time.Minute

// quick is the timing of tests that are free to choose one.
var quick = election.Timing{LeaseDuration: 8 * time.Second, RenewDeadline: 5 * time.Second, RenewInterval: time.Second, Exclusive: true}

// quickly are the flags of that timing.
var quickly = []string{"--lease-duration=8s", "--renew-deadline=5s", "--renew-interval=1s"}

var threeZones = []string{"za", "zb", "zc"}

// The turns of the gate's tests. Those of a turn begin when all of the turns before are over.
const (
	harmless = iota
	losesPower
	losesTheAPI
)

// shared is the control plane of the gate's tests.
var shared struct {
	turns [losesTheAPI + 1]sync.WaitGroup
	boot  sync.Once
	bed   *testbed.Testbed
	dir   string
	err   error
}

// built are the files of programs that are no trial.Kind.
var built = map[string]string{
	"./cmd/kubectl-zonelect": "", "./examples/minimal": "", "./examples/kubebuilder/after": "",
}

// build builds what the gate's tests run. While linkers take all processors, leaders would lose their terms.
func build(ctx context.Context) error {
	err := trial.Build(ctx, trial.Zonelect, trial.ClientGo, trial.Manager, forLife())
	for pkg := range built {
		if err == nil {
			built[pkg], err = testbed.BuildProgram(ctx, pkg)
		}
	}
	return err
}

func TestMain(m *testing.M) {
	flag.Parse()
	// The tests wait most of the time. So all run at once, however few processors there are.
	if err := flag.Set("test.parallel", "100"); err != nil {
		panic(err)
	}
	code := m.Run()
	if shared.bed != nil {
		if err := shared.bed.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	if code == 0 {
		_ = os.RemoveAll(shared.dir) // empty if nothing booted
	} else if shared.dir != "" {
		fmt.Fprintln(os.Stderr, "the logs of the control plane and of all programs are in", shared.dir)
	}
	os.Exit(code)
}

// ground is what a test of the gate has for itself on the control plane that all share.
type ground struct {
	*testbed.Testbed
	namespace string
	client    *kubernetes.Clientset
}

// newGround waits for the test's turn, and makes a namespace.
func newGround(t *testing.T, turn int, name string) *ground {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a real control plane: run without -short")
	}
	shared.turns[turn].Add(1)
	t.Cleanup(shared.turns[turn].Done)
	t.Parallel()
	for before := range turn {
		shared.turns[before].Wait()
	}
	shared.boot.Do(boot)
	must(t, shared.err)
	client, err := kubernetes.NewForConfig(shared.bed.Cluster.RESTConfig("zc"))
	must(t, err)
	return &ground{shared.bed, makeNamespace(t, client, metav1.ObjectMeta{GenerateName: name + "-"}).Name, client}
}

// boot boots the control plane. Its logs stay if a test fails.
func boot() {
	if shared.err = build(context.Background()); shared.err != nil {
		return
	}
	if shared.dir, shared.err = os.MkdirTemp("", "zonelect-gate-"); shared.err != nil {
		return
	}
	shared.bed, shared.err = testbed.Start(context.Background(), testbed.Config{
		Network: network(), Kubernetes: os.Getenv(version), Dir: shared.dir, Progress: os.Stderr,
	})
}

// network is namespaces in CI, and whatever works elsewhere.
func network() testbed.NetworkKind {
	if os.Getenv("CI") != "" {
		return testbed.Namespaces
	}
	return testbed.Auto
}

// named returns the name of something that is not in the namespace, such as a program.
func (g *ground) named(name string) string { return g.namespace + "-" + name }

// seat runs a program until the test ends.
func (g *ground) seat(t *testing.T, kind trial.Kind, zone, lock, name string, args ...string) *trial.Seat {
	t.Helper()
	args = append([]string{"--namespace", g.namespace}, args...)
	s, err := trial.Start(t.Context(), g.Testbed, kind, zone, lock, g.named(name), args...)
	must(t, err)
	t.Cleanup(func() { g.kill(t, s) })
	return s
}

// inPod runs a candidate until the test ends, in a new pod.
func (g *ground) inPod(t *testing.T, zone, lock, name string, args ...string) *trial.Seat {
	t.Helper()
	pod, err := g.Cluster.AddPod(t.Context(), zone, g.named(name), g.namespace, map[string]string{"app": lock})
	must(t, err)
	return g.seat(t, trial.Zonelect, zone, lock, name,
		append([]string{"--pod-name", pod.Name, "--pod-uid", string(pod.UID), "--node-name", pod.Spec.NodeName}, args...)...)
}

// kill ends a program as a crash does, and returns when that began.
func (g *ground) kill(t *testing.T, s *trial.Seat) time.Time {
	t.Helper()
	killed := time.Now()
	must(t, s.Kill())
	<-s.Done()
	return killed
}

// start runs an example until the test ends. Its kubeconfig names the namespace.
func (g *ground) start(t *testing.T, zone, program, name string, args ...string) *testbed.Process {
	t.Helper()
	file := g.kubeconfig(t, zone, func(c *clientcmdapi.Config) { c.Contexts[c.CurrentContext].Namespace = g.namespace })
	p, err := g.StartProcess(zone, testbed.ProcessSpec{Name: g.named(name), Path: program, Args: args, Env: []string{"KUBECONFIG=" + file}})
	must(t, err)
	t.Cleanup(func() {
		must(t, p.Kill())
		<-p.Done()
	})
	return p
}

// kubeconfig writes that of a zone with a change, and returns the file.
func (g *ground) kubeconfig(t *testing.T, zone string, change func(*clientcmdapi.Config)) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(g.Cluster.Kubeconfig(zone))
	must(t, err)
	change(config)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, clientcmd.WriteToFile(*config, file))
	return file
}

// await waits until a program prints an event of that name, at or after a time.
func await(t *testing.T, s *trial.Seat, name string, since time.Time) events.Event {
	t.Helper()
	_, e := awaitAny(t, []*trial.Seat{s}, name, since)
	return e
}

// awaitAny waits until one of the programs prints an event of that name.
func awaitAny(t *testing.T, seats []*trial.Seat, name string, since time.Time) (*trial.Seat, events.Event) {
	t.Helper()
	s, e, err := trial.AwaitAny(patience(t, soon), seats, name, since)
	must(t, err)
	return s, e
}

// until waits until something holds.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for late := time.Now().Add(soon); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}
