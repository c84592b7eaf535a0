// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
	"github.com/zonelect/zonelect/test/kit/usage"
)

// flood is processes that each campaign for the same locks on one heartbeat, in a namespace that
// somebody fills who may create Leases and no more.
type flood struct {
	*testbed.Testbed
	t      *testing.T
	ctx    context.Context
	client *kubernetes.Clientset
	locks  int
	seats  []*trial.Seat
}

func newFlood(t *testing.T) *flood {
	t.Helper()
	b := trial.Bed(t, testbed.Config{Zones: []string{"za", "zb"}, Network: testbed.Links, WithoutControllers: true})
	cfg := b.Cluster.RESTConfig("za")
	cfg.QPS = -1
	client, err := kubernetes.NewForConfig(cfg)
	must(t, err)
	return &flood{Testbed: b, t: t, ctx: patience(t, 8*time.Minute), client: client, locks: 3}
}

// enter starts a process, and waits until it follows or leads at all locks.
func (f *flood) enter(zone string) *trial.Seat {
	f.t.Helper()
	began := time.Now()
	pod, err := f.Cluster.AddPod(f.ctx, zone, fmt.Sprint("op-", len(f.seats)), "default", nil)
	must(f.t, err)
	s := start(f.t, f.Testbed, zone, "lock", pod.Name, "--locks", fmt.Sprint(f.locks), "--heartbeat",
		"--pod-name", pod.Name, "--pod-uid", string(pod.UID), "--node-name", pod.Spec.NodeName)
	f.seats = append(f.seats, s)
	_, err = trial.AwaitLocks(f.ctx, []*trial.Seat{s}, f.locks, began, "following", "leading")
	must(f.t, err)
	return s
}

// takeover kills a process that leads, and returns how long after its last renewal others lead at all its
// locks.
func (f *flood) takeover(leader *trial.Seat, next ...*trial.Seat) time.Duration {
	f.t.Helper()
	time.Sleep(6 * time.Second) // the others know of each other
	killed := time.Now()
	must(f.t, leader.Kill())
	leases := f.client.CoordinationV1().Leases("default")
	lock, err := leases.Get(f.ctx, "lock-0", metav1.GetOptions{})
	must(f.t, err)
	heart, err := leases.Get(f.ctx, record.HeartbeatOf(lock), metav1.GetOptions{})
	must(f.t, err)
	led, err := trial.AwaitLocks(f.ctx, next, f.locks, killed, "leading")
	must(f.t, err)
	for _, s := range next {
		f.rss(s)
	}
	return led.After(heart.Spec.RenewTime.Time, 100)
}

// mostResident is how much memory a candidate may need, whatever there is in its namespace.
const mostResident = 150 << 20

func (f *flood) rss(s *trial.Seat) {
	f.t.Helper()
	used, err := usage.Of(s.PID())
	must(f.t, err)
	f.t.Logf("%s: %d MiB resident", s.Identity, used.RSS>>20)
	if used.RSS > mostResident {
		f.t.Errorf("%s has %d bytes resident, want %d at most", s.Identity, used.RSS, mostResident)
	}
}

// each calls make several times at once.
func (f *flood) each(n int, make func(i int) error) {
	f.t.Helper()
	var making sync.WaitGroup
	var next atomic.Int64
	for range 8 {
		making.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := make(i); err != nil {
					f.t.Error(err)
				}
			}
		})
	}
	making.Wait()
}

// longLeases makes Leases as long as the store takes them.
func (f *flood) longLeases(n int) {
	long := strings.Repeat("x", 1_450_000)
	f.each(n, func(i int) error {
		_, err := f.client.CoordinationV1().Leases("default").Create(f.ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("junk-", i)}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &long},
		}, metav1.CreateOptions{})
		return err
	})
}

// madeUp makes presences of pods that do not exist.
func (f *flood) madeUp(n int) {
	f.each(n, func(i int) error {
		name := fmt.Sprintf("a-%05d", i)
		_, err := presence.Ensure(f.ctx, f.client.CoordinationV1().RESTClient(), "default", presence.Object{
			Lock: "lock", Pod: presence.Pod{Name: name, UID: types.UID("made-up-" + name)}, Identity: name, Zone: "za",
		}, nil, func(context.Context) error { return nil })
		return err
	})
}

// unreadable makes a presence with a time that the server tells as the year 10000.
func (f *flood) unreadable() {
	f.t.Helper()
	must(f.t, f.client.CoordinationV1().RESTClient().Post().Namespace("default").Resource("leases").SetHeader("Content-Type", "application/json").
		Body([]byte(`{"metadata":{"name":"late","labels":{"zonelect.dev/lock":"lock"}},"spec":{"renewTime":"9999-12-31T23:59:59.000000-14:00"}}`)).Do(f.ctx).Error())
}

// timed runs a command of the plugin, which must not take longer than that.
func (f *flood) timed(p plugin, most time.Duration, code int, line string, words ...string) {
	f.t.Helper()
	began := time.Now()
	p.run(f.t, f.ctx, code, line, words...)
	if took := time.Since(began); took > most {
		f.t.Errorf("%s took %v, want %v at most", line, took, most)
	}
}

// TestAFloodOfLeasesStopsNothing: 50 Leases of 1.45 MB, and thousands of made-up presences.
func TestAFloodOfLeasesStopsNothing(t *testing.T) {
	f := newFlood(t)
	first, second := f.enter("za"), f.enter("zb")
	quiet := f.takeover(first, second)
	third := f.enter("za")

	f.longLeases(50)
	f.madeUp(fromEnv(t, "ZONELECT_MADE_UP", 5000))
	f.unreadable()
	t.Log("the namespace is full")
	f.rss(second)
	f.rss(third)
	path, err := testbed.BuildProgram(f.ctx, "./cmd/kubectl-zonelect")
	must(t, err)
	p := plugin{path, f.Cluster.Kubeconfig("za"), nil}
	f.timed(p, 20*time.Second, exitOK, "status", "lock-0", "held")
	f.timed(p, 20*time.Second, exitOK, "status lock-0 --observe 0", "more candidates have announced themselves")
	f.timed(p, 20*time.Second, exitOK, "status -A", "lock-1")
	f.timed(p, 20*time.Second, exitError, "doctor lock-0", "lock-0") // the made-up candidates' pods are gone
	f.timed(p, 30*time.Second, exitOK, "handover lock-0 --to "+third.Identity, "op-2")
	f.timed(p, 30*time.Second, exitOK, "evacuate za", "op-1")
	f.timed(p, 30*time.Second, exitOK, "restore za")

	flooded := f.takeover(second, third)
	newcomer := f.enter("zb")
	f.rss(newcomer)
	last := f.takeover(third, newcomer)
	t.Logf("others led after %v, in the flood after %v, and one that came later after %v", quiet, flooded, last)
	if most := quiet + timing.DefaultRenewInterval; flooded > most { // a Step
		t.Errorf("others led after %v, want %v at most: it waits for those that were made up", flooded, most)
	}
	// Those that were made up were there before it, so that it behaves as in a crowd.
	if most := lease + busy + 2*timing.DefaultRenewInterval; last > most {
		t.Errorf("one that came later led after %v, want %v at most", last, most)
	}
}
