// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zonelect/zonelect/internal/transport/live"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

// nameless is about a lock that no watch can begin at while its name does not resolve. Watches that run go on.
type nameless struct {
	gone                atomic.Bool
	running, tried, all atomic.Int32
}

func (n *nameless) lock(l *altered) {
	l.watch = func(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
		n.all.Add(1)
		if n.gone.Load() {
			n.tried.Add(1)
			return errors.New("no such host")
		}
		n.running.Add(1)
		defer n.running.Add(-1)
		return l.Lock.Watch(ctx, from, events)
	}
}

// TestAWatchThatIsDoubtedGoesOnUntilAnotherSaysSomething: what it says meanwhile is heard, and it ends then.
func TestAWatchThatIsDoubtedGoesOnUntilAnotherSaysSomething(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		lock := &nameless{}
		b := s.start("b", altering(lock.lock))
		silent := func() {
			a.link.Set(cut)
			time.Sleep(3 * interval)
			a.link.Set(whole)
			time.Sleep(interval + time.Millisecond)
		}
		time.Sleep(4 * interval)
		lock.gone.Store(true)
		silent()
		if tried, running := lock.tried.Load(), lock.running.Load(); tried != 1 || running != 1 {
			t.Fatalf("%d watches were tried, and %d run, want one each", tried, running)
		}
		a.Stop()
		s.leads(b, 0)

		lock = &nameless{}
		c := s.start("c", altering(lock.lock))
		time.Sleep(4 * interval)
		a = b
		silent()
		time.Sleep(interval)
		if all, running := lock.all.Load(), lock.running.Load(); all != 2 || running != 1 {
			t.Errorf("%d watches began, and %d run, want two and one", all, running)
		}
		c.Idles()
	})
}

// TestAFollowerThatHearsNothingAsksOverAConnectionThatIsKnownToLive: the API server of its own may have died with the
// leader.
func TestAFollowerThatHearsNothingAsksOverAConnectionThatIsKnownToLive(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		var reads, kept atomic.Int32
		var silent atomic.Bool
		b := s.start("b", altering(func(l *altered) {
			l.read = func(ctx context.Context) (locks.Snapshot, error) {
				if since, is := live.Wanted(ctx); silent.Load() && (!is || time.Since(since) > 0) {
					kept.Add(1)
					<-ctx.Done() // as on a dead one
					return locks.Snapshot{}, ctx.Err()
				}
				reads.Add(1)
				return l.Lock.Read(ctx)
			}
		}))
		time.Sleep(2 * interval)
		silent.Store(true)
		before := reads.Load()
		a.link.Set(cut)
		time.Sleep(lease / 2)
		if fresh, old := reads.Load()-before, kept.Load(); fresh == 0 || old > 0 {
			s.T.Errorf("after a silence %d reads ask for a connection that is known to live, and %d do not", fresh, old)
		}
		b.Leads()
	})
}

// TestACandidateThatIsKeptWaitingReadsNowAndThen: else it never learns what a person has done,
// because its watch is silent.
func TestACandidateThatIsKeptWaitingReadsNowAndThen(t *testing.T) {
	each(t, map[string]time.Duration{"forever": 0, "for a year": 365 * 24 * time.Hour}, func(s *stage, lasts time.Duration) {
		s.write(held(lasts))
		b := s.start("b")
		b.link.Set(muted)
		time.Sleep(time.Minute)
		before := b.link.Calls("read")
		time.Sleep(time.Hour)
		if reads := b.link.Calls("read") - before; reads < 30 || reads > 60 {
			s.T.Errorf("%d reads in an hour", reads)
		}
		s.write(held(lease))
		s.leadsWithin(b, 2*time.Minute+lease)
	})
}

// TestASilentWatchBeginsAgainWhileACandidateIsKeptWaiting, so that it hears the next renewal.
func TestASilentWatchBeginsAgainWhileACandidateIsKeptWaiting(t *testing.T) {
	scenario(t, func(s *stage) {
		s.write(held(0))
		b := s.start("b")
		time.Sleep(10 * time.Second)
		b.link.Set(muted)
		time.Sleep(time.Second)
		b.link.Set(whole)
		time.Sleep(2 * time.Minute)
		s.write(held(lease))
		s.leads(b, lease)
	})
}

// TestAFollowerAsksASlowServerNoOftenerThanItsLeaderDoes: it gets used to renewals that take long.
func TestAFollowerAsksASlowServerNoOftenerThanItsLeaderDoes(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		b := s.start("b")
		a.link.Set(lockstest.Fault{Delay: 1500 * time.Millisecond, Mute: true})
		time.Sleep(time.Minute)
		before := b.link.Calls("read") + b.link.Calls("watch")
		time.Sleep(time.Minute)
		if n := b.link.Calls("read") + b.link.Calls("watch") - before; n > 2 {
			t.Errorf("%d requests in a minute", n)
		}
	})
}
