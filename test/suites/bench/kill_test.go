// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

// lagMost is how long after the end of a killed leader's lease the next one
// may lead, in 99 of 100 cases.
const lagMost = 50 * time.Millisecond

func TestKilledLeadersAreFollowedAsTheirLeasesExpire(t *testing.T) {
	b := bed(t)
	ctx := patience(t, 6*time.Minute)
	const locks, kills, theirKills = 40, 5, 2
	o := observe(t, ctx, b)
	// One kind after the other: together they keep two cores busy with renewals.
	bare := punctualWrites(t, ctx, b)
	our := inParallel(t, ctx, kills, killings(t, ctx, b, o, zonelect, election.Timing{}, "zonelect", locks))
	writes := bare()
	their := inParallel(t, ctx, theirKills, killings(t, ctx, b, o, clientGo, election.Timing{}, "client-go", locks))
	report.spread("leader killed, lease 15s: next leads after its end", writes, our, their, "", lagMost.String())
	judgeLags(t, our, locks*kills)
}

func TestKilledLeadersAreFollowedAsTheirShortLeasesExpire(t *testing.T) {
	b := bed(t)
	ctx := patience(t, 5*time.Minute)
	const locks, kills = 25, 8
	timing := election.Timing{
		LeaseDuration: 3 * time.Second, RenewDeadline: 1600 * time.Millisecond,
		RenewInterval: 800 * time.Millisecond, AttemptTimeout: 800 * time.Millisecond, Exclusive: true,
	}
	all := killings(t, ctx, b, observe(t, ctx, b), zonelect, timing, "short", locks)
	bare := punctualWrites(t, ctx, b)
	lags := inParallel(t, ctx, kills, all)
	report.spread("leader killed, lease 3s: next leads after its end", bare(), lags, nil, "", lagMost.String())
	judgeLags(t, lags, locks*kills)
}

func judgeLags(t *testing.T, lags []time.Duration, want int) {
	t.Helper()
	if len(lags) < want {
		t.Fatalf("%d leaders were killed and followed, want %d", len(lags), want)
	}
	p50, p99 := percentile(lags, 0.5), percentile(lags, 0.99)
	t.Logf("%d kills, lag after the lease's end: min %v, p50 %v, p99 %v, max %v", len(lags), lags[0], p50, p99, lags[len(lags)-1])
	if p99 > lagMost {
		t.Errorf("p99 of the lag is %v, want %v at most", p99, lagMost)
	}
	if lags[0] < -150*time.Millisecond {
		t.Errorf("a follower led %v before the lease ended", -lags[0])
	}
}

// killings are contests of three candidates, each on a lock of its own, whose
// leader dies.
func killings(t *testing.T, ctx context.Context, b *testbed.Testbed, o *observer, k kind, timing election.Timing, name string, locks int) []measure {
	t.Helper()
	var all []measure
	for i := range locks {
		c := newContest(t, ctx, b, k, timing, fmt.Sprint(name, "-", i), 3)
		all = append(all, func(ctx context.Context) (time.Duration, error) { return c.kill(ctx, o) })
	}
	return all
}

// kill kills the leader at a random time between two renewals, and returns how
// long after the end of its lease the next one's work began.
func (c *contest) kill(ctx context.Context, o *observer) (time.Duration, error) {
	if err := c.settle(ctx); err != nil {
		return 0, err
	}
	if err := sleep.For(ctx, c.timing.RenewInterval+rand.N(c.timing.RenewInterval)); err != nil {
		return 0, err
	}
	dead := c.leader
	dead.wire.cut()
	defer dead.stop() // or it would go on campaigning, in vain
	next, err := c.succeed(ctx)
	if err != nil {
		return 0, err
	}
	last, ok := o.last(dead.identity)
	if !ok {
		return 0, fmt.Errorf("%s: the observer never saw %s", c.lock, dead.identity)
	}
	return next.at.Sub(last.Add(c.timing.LeaseDuration)), nil
}

// punctualWrites measures the least that a takeover takes: one write that is
// due at a certain time. It goes on beside the other measurements, and so shows
// how busy the machine is. The returned function ends it and returns how late
// the writes were done.
func punctualWrites(t *testing.T, ctx context.Context, b *testbed.Testbed) func() []time.Duration {
	t.Helper()
	const interval = 100 * time.Millisecond
	lock := newLock(t, b, "bare")
	held, err := lock.Write(ctx, locks.Version{}, record("bare"))
	must(t, err)
	writing, stop := context.WithCancel(ctx)
	var late []time.Duration
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			due := time.Now().Add(interval)
			if sleep.For(writing, interval) != nil {
				return
			}
			if held, err = lock.Write(ctx, held.Version, record("bare")); err != nil {
				t.Error(err)
				return
			}
			late = append(late, time.Since(due))
		}
	})
	t.Cleanup(stop)
	return func() []time.Duration { stop(); wait.Wait(); return late }
}

// observer notes when it saw the last write of each holder of any Lease.
type observer struct {
	mu   sync.Mutex
	seen map[string]time.Time
}

// observe watches all Leases until the test ends.
func observe(t *testing.T, ctx context.Context, b *testbed.Testbed) *observer {
	t.Helper()
	client, err := kubernetes.NewForConfig(b.Cluster.RESTConfig("za"))
	must(t, err)
	watch, err := client.CoordinationV1().Leases("default").Watch(ctx, metav1.ListOptions{})
	must(t, err)
	o := &observer{seen: map[string]time.Time{}}
	var wait sync.WaitGroup
	wait.Go(func() {
		for event := range watch.ResultChan() {
			if lease, ok := event.Object.(*coordinationv1.Lease); ok && lease.Spec.HolderIdentity != nil {
				o.note(*lease.Spec.HolderIdentity)
			}
		}
		if t.Context().Err() == nil {
			t.Error("the observer's watch has ended")
		}
	})
	t.Cleanup(func() { watch.Stop(); wait.Wait() })
	return o
}

func (o *observer) note(holder string) {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen[holder] = now
}

func (o *observer) last(holder string) (time.Time, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	at, ok := o.seen[holder]
	return at, ok
}
