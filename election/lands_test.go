// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks"
)

// landing is a lock whose writes land late, as behind admission webhooks or a slow disk. The
// server compares the version in between, and again when the write lands; if that fails, it
// admits the write once more before it answers. Reads are answered late as well, if that is wanted.
// What is under way lands though its caller gives up.
type landing struct {
	locks.Lock

	mu                     sync.Mutex
	admits, lands, answers time.Duration // how long each takes
	landed                 time.Time     // when the last write landed
	acks                   time.Duration // how much longer the answer to a write takes than that to a read
	stale                  time.Duration // how long after a write the next one is admitted twice
	writes                 int           // that were sent
}

// set changes how long everything takes from now on.
func (l *landing) set(admits, lands, answers time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.admits, l.lands, l.answers, l.acks = admits, lands, answers, 0
}

// acknowledge sets how much longer the answer to a write takes than that to a read.
func (l *landing) acknowledge(after time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acks = after
}

// unanswered waits as long as an answer to a write takes longer.
func (l *landing) unanswered() {
	l.mu.Lock()
	after := l.acks
	l.mu.Unlock()
	time.Sleep(after)
}

// age is how long ago the last write landed.
func (l *landing) age() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.landed)
}

func (l *landing) staleFor() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stale
}

func (l *landing) takes() (admits, lands, answers time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.admits, l.lands, l.answers
}

func (l *landing) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writes
}

// late does what a request wants, and returns its answer unless the caller has given up.
func (l *landing) late(ctx context.Context, do func(context.Context) (locks.Snapshot, error)) (locks.Snapshot, error) {
	type answer struct {
		snapshot locks.Snapshot
		err      error
	}
	answers := make(chan answer, 1)
	go func() {
		s, err := do(context.WithoutCancel(ctx))
		_, _, late := l.takes()
		time.Sleep(late)
		answers <- answer{s, err}
	}()
	select {
	case a := <-answers:
		return a.snapshot, a.err
	case <-ctx.Done():
		return locks.Snapshot{}, ctx.Err()
	}
}

func (l *landing) Read(ctx context.Context) (locks.Snapshot, error) { return l.late(ctx, l.Lock.Read) }

func (l *landing) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	l.mu.Lock()
	l.writes++
	l.mu.Unlock()
	return l.late(ctx, func(ctx context.Context) (locks.Snapshot, error) {
		admits, lands, _ := l.takes()
		if l.age() < l.staleFor() {
			time.Sleep(admits)
		}
		time.Sleep(admits)
		if now, err := l.Lock.Read(ctx); err != nil || now.Version.Exists() != base.Exists() || base.Exists() && now.Version.Number != base.Number {
			return locks.Snapshot{}, fmt.Errorf("admitted: %w", locks.ErrConflict)
		}
		time.Sleep(lands)
		s, err := l.land(l.Lock.Write(ctx, base, r))
		if err != nil {
			time.Sleep(admits)
		}
		l.unanswered()
		return s, err
	})
}

func (l *landing) land(s locks.Snapshot, err error) (locks.Snapshot, error) {
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.landed = time.Now()
	}
	return s, err
}

// onLanding makes a candidate of that timing whose writes land late.
func (s *stage) onLanding(identity string, timing election.Timing) (*seat, *landing) {
	var lock *landing
	c := s.candidate(identity, func(c *election.Config) {
		lock = &landing{Lock: c.Lock}
		c.Lock, c.Timing = lock, timing
	})
	s.T.Cleanup(lock.settle)
	return c, lock
}

// settle waits until nothing is under way any more.
func (l *landing) settle() {
	l.set(0, 0, 0)
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
						lock.set(admits, late-admits, 0)
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
	for _, late := range []struct{ admits, lands, answers, acks time.Duration }{
		{0, 6 * time.Second, 0, 0}, {4 * time.Second, 3 * time.Second, 0, 0}, {0, 5 * time.Second, 700 * time.Millisecond, 0},
		{0, 3500 * time.Millisecond, 3500 * time.Millisecond, 0}, {2 * time.Second, time.Second, 4 * time.Second, 0}, {0, 0, 8 * time.Second, 0},
		{0, time.Second, 0, 7 * time.Second}, {0, 1500 * time.Millisecond, 300 * time.Millisecond, 4 * time.Second},
	} {
		t.Run(fmt.Sprint(late), func(t *testing.T) {
			scenario(t, func(s *stage) {
				a, lock := s.onLanding("a", election.Timing{})
				a.Start()
				a.Leads()
				lock.set(late.admits, late.lands, late.answers)
				lock.acknowledge(late.acks)
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
		lock.set(0, 3*time.Second, 0)
		lock.acknowledge(4 * time.Second)
		time.Sleep(4100 * time.Millisecond) // the renewal has landed, after a read has shown that it had not
		lock.set(0, time.Minute, 0)         // so that the record is not recreated
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
			lock = &landing{Lock: c.Lock}
			c.Lock = coarse{lock, time.Millisecond}
		})
		s.T.Cleanup(lock.settle)
		term, _ := a.Leads()
		const late = 3 * time.Second
		time.Sleep(interval - time.Second)
		lock.set(0, late, 0)
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
		lock.stale = interval / 100
		lock.set(2150*time.Millisecond, 2150*time.Millisecond, 0)
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
		lock.set(0, 20*time.Second, 0)
		before, n := lock.count(), 0
		for ; a.Term().TrustedFor() > 0; time.Sleep(interval / 20) {
			n = lock.count() - before
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
		lock.set(0, deadline/2-interval*3/10, 0)
		a.Start()
		a.Leads()
		time.Sleep(time.Minute)
		a.Stays()
		if n := lock.count(); n < 2 {
			t.Errorf("%d writes", n)
		}
	})
}
