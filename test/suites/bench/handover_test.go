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

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/environment"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

func TestHandoverCostsLittleMoreThanTheBareWrites(t *testing.T) {
	b := bed(t)
	ctx := patience(t, 5*time.Minute)
	const rounds = 300
	bare := newByHand(t, ctx, b)
	c := newContest(t, ctx, b, zonelect, election.Timing{}, "handover", 3)
	var bares, ours []time.Duration
	for range rounds { // in turn and after equal rests, so that both suffer the same noise
		must(t, c.settle(ctx))
		bares = append(bares, bare.round(t, ctx))
		must(t, c.settle(ctx))
		took, err := c.handOver(ctx)
		must(t, err)
		ours = append(ours, took)
	}
	theirs := clientGoHandsOver(t, ctx, b, rounds) // afterwards, so that it disturbs neither

	report.spread("leader stops on SIGTERM: next leads after", bares, ours, theirs, "x2", "x4")
	compare := func(name string, p, most float64) {
		x, y := percentile(bares, p), percentile(ours, p)
		ratio := float64(y) / float64(x)
		t.Logf("%s of %d handovers: bare %v, zonelect %v, ratio %.2f", name, rounds, x, y, ratio)
		if ratio > most {
			t.Errorf("%s is %.2f times the bare writes, want %.0f at most", name, ratio, most)
		}
	}
	compare("p50", 0.5, 2)
	compare("p99", 0.99, 4)
}

// handOver stops the leader, and returns how long after that the next one's
// work began.
func (c *contest) handOver(ctx context.Context) (time.Duration, error) {
	old, start := c.leader, time.Now()
	old.stop()
	next, err := c.succeed(ctx)
	if err != nil {
		return 0, err
	}
	<-old.done
	return next.at.Sub(start), old.err
}

// clientGoHandsOver measures many locks at once, since each round takes
// seconds of waiting.
func clientGoHandsOver(t *testing.T, ctx context.Context, b *testbed.Testbed, rounds int) []time.Duration {
	const locks = 25
	var all []measure
	for i := range locks {
		c := newContest(t, ctx, b, clientGo, election.Timing{}, fmt.Sprint("client-go-handover-", i), 3)
		all = append(all, func(ctx context.Context) (time.Duration, error) {
			if err := c.settle(ctx); err != nil {
				return 0, err
			}
			// At any time between two polls of the followers.
			if err := sleep.For(ctx, rand.N(2*c.timing.RenewInterval)); err != nil {
				return 0, err
			}
			return c.handOver(ctx)
		})
	}
	return inParallel(t, ctx, rounds/locks, all)
}

// byHand is the least that a handover takes: a release, the watch event that
// shows it, and the write that takes the lock.
type byHand struct {
	leader, follower locks.Lock
	events           chan locks.Event
	held             locks.Snapshot
}

func newByHand(t *testing.T, ctx context.Context, b *testbed.Testbed) *byHand {
	h := &byHand{leader: newLock(t, b, "bare"), follower: newLock(t, b, "bare"), events: make(chan locks.Event, 16)}
	h.held = h.write(t, ctx, h.leader, locks.Version{}, "leader")
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		if err := h.follower.Watch(watching, h.held.Version, h.events); err != nil && watching.Err() == nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); watch.Wait() })
	return h
}

// newLock returns a lock with connections of its own.
func newLock(t *testing.T, b *testbed.Testbed, name string) locks.Lock {
	t.Helper()
	lock, err := (&environment.Environment{Config: b.Cluster.RESTConfig("za"), Namespace: "default", Timing: election.Timing{}.WithDefaults()}).LeaseLock(name)
	must(t, err)
	t.Cleanup(lock.Capabilities().CloseConnections)
	return lock
}

func record(holder string) locks.Record {
	now := time.Now()
	r := locks.Record{Holder: holder, LeaseDuration: timing.DefaultLeaseDuration, AcquireTime: now, RenewTime: now}
	if holder == "" {
		r.LeaseDuration = time.Second
	}
	return r
}

func (h *byHand) write(t *testing.T, ctx context.Context, l locks.Lock, base locks.Version, holder string) locks.Snapshot {
	t.Helper()
	s, err := l.Write(ctx, base, record(holder))
	must(t, err)
	return s
}

// sees waits for the event of a record with that holder.
func (h *byHand) sees(t *testing.T, ctx context.Context, holder string) locks.Snapshot {
	t.Helper()
	for {
		select {
		case e := <-h.events:
			if !e.Bookmark && e.Snapshot.Record.Holder == holder {
				return e.Snapshot
			}
		case <-ctx.Done():
			t.Fatalf("the watch does not tell that %q holds the lock", holder)
		}
	}
}

func (h *byHand) round(t *testing.T, ctx context.Context) time.Duration {
	released := make(chan error, 1)
	start := time.Now()
	go func() {
		_, err := h.leader.Write(ctx, h.held.Version, record(""))
		released <- err
	}()
	free := h.sees(t, ctx, "")
	taken := h.write(t, ctx, h.follower, free.Version, "follower")
	took := time.Since(start)
	must(t, <-released)
	h.held = h.write(t, ctx, h.leader, taken.Version, "leader")
	h.sees(t, ctx, "leader")
	return took
}
