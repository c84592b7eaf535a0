// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

// landing is a lock whose writes land late, as behind admission webhooks or a slow disk. The
// server compares the version in between, and again when the write lands; if that fails, it
// admits the write once more before it answers. Reads are answered late as well, if that is wanted.
// What is under way lands though its caller gives up.
type landing struct {
	locks.Lock
	takes  atomic.Pointer[takes]
	landed atomic.Pointer[time.Time] // when the last write landed
	writes atomic.Int64              // that were sent
}

// takes is how long everything takes.
type takes struct {
	admits, lands, answers time.Duration
	acks                   time.Duration // how much longer the answer to a write takes than that to a read
	stale                  time.Duration // how long after a write the next one is admitted twice
}

func newLanding(lock locks.Lock) *landing {
	l := &landing{Lock: lock}
	l.takes.Store(&takes{})
	l.landed.Store(&time.Time{})
	return l
}

// age is how long ago the last write landed.
func (l *landing) age() time.Duration { return time.Since(*l.landed.Load()) }

// late does what a request wants, and returns its answer unless the caller has given up.
func (l *landing) late(ctx context.Context, do func(context.Context) (locks.Snapshot, error)) (locks.Snapshot, error) {
	answered := make(chan struct{})
	var late locks.Snapshot
	var failed error
	go func() {
		defer close(answered)
		late, failed = do(context.WithoutCancel(ctx))
		time.Sleep(l.takes.Load().answers)
	}()
	select {
	case <-answered:
		return late, failed
	case <-ctx.Done():
		return locks.Snapshot{}, ctx.Err()
	}
}

func (l *landing) Read(ctx context.Context) (locks.Snapshot, error) { return l.late(ctx, l.Lock.Read) }

func (l *landing) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	l.writes.Add(1)
	return l.late(ctx, func(ctx context.Context) (locks.Snapshot, error) {
		take := l.takes.Load()
		if l.age() < take.stale {
			time.Sleep(take.admits)
		}
		time.Sleep(take.admits)
		now, err := l.Lock.Read(ctx)
		if v := now.Version; err != nil || v.Exists() != base.Exists() || base.Exists() && v.Number != base.Number {
			return locks.Snapshot{}, fmt.Errorf("admitted: %w", locks.ErrConflict)
		}
		time.Sleep(take.lands)
		s, err := l.Lock.Write(ctx, base, r)
		if err != nil {
			time.Sleep(take.admits)
		} else {
			now := time.Now()
			l.landed.Store(&now)
		}
		time.Sleep(l.takes.Load().acks)
		return s, err
	})
}

// onLanding makes a candidate of that timing whose writes land late.
func (s *stage) onLanding(identity string, timing election.Timing) (*seat, *landing) {
	var lock *landing
	c := s.candidate(identity, func(c *election.Config) {
		lock = newLanding(c.Lock)
		c.Lock, c.Timing = lock, timing
	})
	s.T.Cleanup(lock.settle)
	return c, lock
}

// settle waits until nothing is under way any more.
func (l *landing) settle() {
	l.takes.Store(&takes{})
	time.Sleep(time.Minute)
}

// TestLeadershipHoldsWhileWritesLandLate: each read that overtakes a write dates its landing.
func TestLeadershipHoldsWhileWritesLandLate(t *testing.T) {
	for _, timing := range []election.Timing{{}, longTiming} {
		most := timing.WithDefaults().RenewDeadline - 2*timing.WithDefaults().RenewInterval
		for late := time.Second / 2; late <= most; late += time.Second / 2 {
			for _, admits := range []time.Duration{0, late / 2, late} {
				t.Run(fmt.Sprintf("%v, %v of it before the version is compared", late, admits), func(t *testing.T) {
					scenario(t, func(s *stage) {
						a, lock := s.onLanding("a", timing)
						lock.takes.Store(&takes{admits: admits, lands: late - admits})
						a.Start()
						a.wins(2 * time.Minute) // no read can date the creation of the record
						time.Sleep(10 * time.Minute)
						a.Stays()
					})
				})
			}
		}
	}
}

// TestS1NoTrustOutlivesADeadlineAfterTheLastWriteLanded, wherever the time is spent: from then
// on others wait.
func TestS1NoTrustOutlivesADeadlineAfterTheLastWriteLanded(t *testing.T) {
	const s = time.Second
	for _, late := range []takes{
		{lands: 6 * s}, {admits: 4 * s, lands: 3 * s}, {lands: 5 * s, answers: 700 * time.Millisecond}, {answers: 8 * s},
		{lands: 3500 * time.Millisecond, answers: 3500 * time.Millisecond}, {admits: 2 * s, lands: s, answers: 4 * s},
		{lands: s, acks: 7 * s},
		{lands: 1500 * time.Millisecond, answers: 300 * time.Millisecond, acks: 4 * s},
	} {
		t.Run(fmt.Sprint(late), func(t *testing.T) {
			scenario(t, func(s *stage) {
				a, lock := s.onLanding("a", election.Timing{})
				a.Start()
				a.Leads()
				lock.takes.Store(&late)
				for range 6000 {
					time.Sleep(time.Second / 10)
					if left, most := a.Term().TrustedFor(), deadline-lock.age(); left > max(0, most) {
						t.Fatalf("trusted for another %v, %v after the last write landed", left, lock.age())
					}
				}
				a.wins(0)
			})
		})
	}
}

// TestS1AReadThatFindsNothingDatesNoLanding: somebody deleted the record after the write had landed.
func TestS1AReadThatFindsNothingDatesNoLanding(t *testing.T) {
	scenario(t, func(s *stage) {
		a, lock := s.onLanding("a", election.Timing{})
		a.Start()
		term, _ := a.Leads()
		time.Sleep(interval - time.Second)
		lock.takes.Store(&takes{lands: 3 * time.Second, acks: 4 * time.Second})
		time.Sleep(4100 * time.Millisecond)          // the renewal has landed, after a read has shown that it had not
		lock.takes.Store(&takes{lands: time.Minute}) // so that the record is not recreated
		s.lock.Delete()
		for range 50 {
			time.Sleep(time.Second / 10)
			if left, most := term.TrustedFor(), deadline-lock.age(); left > most {
				t.Fatalf("trusted for another %v, %v after the last write landed", left, lock.age())
			}
		}
		if left := term.TrustedFor(); left <= 0 {
			t.Errorf("the renewal is not acknowledged: this tests nothing")
		}
	})
}

// TestS1NoReadDatesALandingOnALockThatMayHaveTwoRecords: one of them may have been written.
func TestS1NoReadDatesALandingOnALockThatMayHaveTwoRecords(t *testing.T) {
	scenario(t, func(s *stage) {
		var lock *landing
		a := s.start("a", func(c *election.Config) {
			lock = newLanding(c.Lock)
			c.Lock = lock
		}, altering(coarse(time.Millisecond)))
		s.T.Cleanup(lock.settle)
		term, _ := a.Leads()
		const late = 3 * time.Second
		time.Sleep(interval - time.Second)
		lock.takes.Store(&takes{lands: late})
		time.Sleep(time.Second + late + time.Millisecond)
		if left := term.TrustedFor(); left <= 0 || left > deadline-late {
			t.Errorf("trusted for another %v after a renewal that took %v", left, late)
		}
	})
}

// TestARenewalDoesNotFollowAnotherAtOnce: an API server whose cache does not have the write before
// has its webhooks asked twice.
func TestARenewalDoesNotFollowAnotherAtOnce(t *testing.T) {
	scenario(t, func(s *stage) {
		a, lock := s.onLanding("a", election.Timing{})
		lock.takes.Store(&takes{admits: 2150 * time.Millisecond, lands: 2150 * time.Millisecond, stale: interval / 100})
		a.Start()
		a.Leads()
		time.Sleep(10 * time.Minute)
		a.Stays()
	})
}

// TestSlowWritesAreRepeatedLessAndLess: each repetition makes the server slower.
func TestSlowWritesAreRepeatedLessAndLess(t *testing.T) {
	scenario(t, func(s *stage) {
		a, lock := s.onLanding("a", election.Timing{})
		a.Start()
		a.Leads()
		lock.takes.Store(&takes{lands: 20 * time.Second})
		before, n := lock.writes.Load(), int64(0)
		for ; a.Term().TrustedFor() > 0; time.Sleep(interval / 20) {
			n = lock.writes.Load() - before
		}
		if n > 3 { // the renewal, and two repetitions
			t.Errorf("%d writes within a RenewDeadline", n)
		}
	})
}

// TestARenewalWaitsForNoRepetitionOfWhatHasLanded: the creation of the record was repeated, and
// the repetition will conflict.
func TestARenewalWaitsForNoRepetitionOfWhatHasLanded(t *testing.T) {
	scenario(t, func(s *stage) {
		a, lock := s.onLanding("a", election.Timing{})
		lock.takes.Store(&takes{lands: deadline/2 - interval*3/10})
		a.Start()
		a.Leads()
		time.Sleep(time.Minute)
		a.Stays()
		if n := lock.writes.Load(); n < 2 {
			t.Errorf("%d writes", n)
		}
	})
}

// fitting is how long answers take of which two just fit into a RenewDeadline.
var _, fitting = election.Timing{}.Bounds()

// onSlow starts a candidate, makes its lock slow by delay per answer, and returns when the
// lock has been slow for a while.
func onSlow(s *stage, delay time.Duration) *seat {
	a := s.start("a")
	a.link.Set(lockstest.Fault{Delay: delay / 2})
	a.wins(2 * time.Minute)
	return a
}

// wins lets the seat win and lose terms for d.
func (c *seat) wins(d time.Duration) {
	for over := time.After(d); ; {
		select {
		case <-c.Leading:
		case <-c.Ended:
		case <-over:
			return
		}
	}
}

func TestLeadershipHoldsWhileTwoAnswersFitIntoARenewDeadline(t *testing.T) {
	for _, delay := range []time.Duration{interval / 20, interval, 3 * time.Second, 4 * time.Second, fitting} {
		t.Run(fmt.Sprint(delay), func(t *testing.T) {
			scenario(t, func(s *stage) {
				a := onSlow(s, delay)
				time.Sleep(10 * time.Minute)
				a.Stays()
			})
		})
	}
}

// TestS5NothingRenewsAReleasedRecord: renewals are under way when the work ends.
func TestS5NothingRenewsAReleasedRecord(t *testing.T) {
	scenario(t, func(s *stage) {
		a := onSlow(s, fitting)
		term := a.Term()
		a.Stop()
		s.ends(a)
		for range 300 {
			if r := s.record(); r.Holder != "" || r.Details.Released != term.Token {
				t.Fatalf("%+v", r)
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}
