// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

// swallowing is a lock that loses writes on their way, while reads and watches work, as if
// one of several connections is dead.
type swallowing struct {
	locks.Lock
	writes atomic.Int64 // how many more it loses
}

func (l *swallowing) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	if l.writes.Add(-1) >= 0 {
		<-ctx.Done()
		return locks.Snapshot{}, ctx.Err()
	}
	return l.Lock.Write(ctx, base, r)
}

// leaderOnSwallowing starts a candidate on such a lock, and returns when it leads.
func leaderOnSwallowing(s *stage) (*seat, *swallowing) {
	var lock *swallowing
	a := s.start("a", func(c *election.Config) {
		lock = &swallowing{Lock: c.Lock}
		c.Lock = lock
	})
	a.Leads()
	return a, lock
}

func TestS6AReadThatShowsAnEarlierRenewalConfirmsNothing(t *testing.T) {
	scenario(t, func(s *stage) {
		a, lock := leaderOnSwallowing(s)
		lock.writes.Store(1000)
		took, _ := a.Loses()
		s.want("the term ends", took, deadline)
	})
}

// TestASlowRenewalIsOvertakenInTimeForAnother: the read shows that the renewal has not
// landed, and the next one has time.
func TestASlowRenewalIsOvertakenInTimeForAnother(t *testing.T) {
	scenario(t, func(s *stage) {
		a, lock := leaderOnSwallowing(s)
		for range 5 {
			lock.writes.Store(1)
			time.Sleep(2 * deadline)
		}
		a.Stays()
	})
}

// TestAReadThatAnotherOvertookIsAsGoodAsTheNewest: of several API servers behind one address
// one hangs, and gets the first renewal and all reads except the first.
func TestAReadThatAnotherOvertookIsAsGoodAsTheNewest(t *testing.T) {
	scenario(t, func(s *stage) {
		a, lock := leaderOnPaced(s)
		term := a.Term()
		lock.play(loses, []time.Duration{interval * 3 / 2, time.Hour, time.Hour, time.Hour, time.Hour})
		answered := interval + interval + interval*3/2 // the read that overtakes the renewal
		time.Sleep(answered)
		synctest.Wait()
		s.want("the term is trusted", term.TrustedFor(), deadline)
		time.Sleep(3 * deadline)
		a.Stays()
		if n := lock.writes.Load(); n < 10 {
			t.Errorf("%d writes", n)
		}
	})
}

// TestS6AReadThatWasSentBeforeTheLastWriteSettlesNothing: it cannot show whether that write
// has landed.
func TestS6AReadThatWasSentBeforeTheLastWriteSettlesNothing(t *testing.T) {
	scenario(t, func(s *stage) {
		a, lock := leaderOnPaced(s)
		// The first read is answered while the third overtakes the second write.
		lock.play(loses+landsOnly, []time.Duration{interval * 5 / 2, 0, interval * 3 / 4})
		time.Sleep(4*interval + interval*5/8)
		synctest.Wait()
		if n, r := lock.writes.Load(), lock.reads.Load(); n != 2 || r != 3 {
			t.Errorf("%d writes and %d reads", n, r)
		}
		time.Sleep(interval/8 + interval/50) // the third read shows the second write, and the next is due
		synctest.Wait()
		if n := lock.writes.Load(); n != 3 {
			t.Errorf("%d writes", n)
		}
		a.Stays()
	})
}

// paced is a lock whose calls fare as play says: one letter for each of the next writes, and
// how long the answer to each of the next reads takes. The calls after these work.
type paced struct {
	locks.Lock
	fates         atomic.Value // string
	answers       atomic.Value // []time.Duration
	writes, reads atomic.Int64
}

// The fates of writes.
const (
	loses     = "l" // does not land, and gets no answer
	landsOnly = "n" // lands, and gets no answer
)

// leaderOnPaced starts a candidate on such a lock, and returns when it leads.
func leaderOnPaced(s *stage) (*seat, *paced) {
	var lock *paced
	a := s.start("a", func(c *election.Config) {
		lock = &paced{Lock: c.Lock}
		lock.play("", nil)
		c.Lock = lock
	})
	a.Leads()
	return a, lock
}

func (l *paced) play(writes string, reads []time.Duration) {
	l.fates.Store(writes)
	l.answers.Store(reads)
	l.writes.Store(0)
	l.reads.Store(0)
}

func (l *paced) Read(ctx context.Context) (locks.Snapshot, error) {
	s, err := l.Lock.Read(ctx)
	if n, answers := l.reads.Add(1), l.answers.Load().([]time.Duration); int(n) <= len(answers) {
		select {
		case <-ctx.Done():
			return locks.Snapshot{}, ctx.Err()
		case <-time.After(answers[n-1]):
		}
	}
	return s, err
}

func (l *paced) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	n, fates := l.writes.Add(1), l.fates.Load().(string)
	if int(n) > len(fates) {
		return l.Lock.Write(ctx, base, r)
	}
	if fates[n-1:n] == landsOnly {
		_, _ = l.Lock.Write(ctx, base, r)
	}
	<-ctx.Done()
	return locks.Snapshot{}, ctx.Err()
}

// TestS6ALockThatMayShowHalfARecordConfirmsNothing: the record that it shows may come from
// two objects, one of which was written earlier.
func TestS6ALockThatMayShowHalfARecordConfirmsNothing(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a", func(c *election.Config) { c.Lock = coarse{c.Lock, 0} })
		a.Leads()
		a.link.Set(lockstest.Fault{LoseAnswers: true})
		took, _ := a.Loses()
		s.want("the term ends", took, deadline)
	})
}

func TestS1ARenewalThatFailsExtendsNothing(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		a.link.Set(lockstest.Fault{Err: errors.New("connection reset")})
		took, _ := a.Loses()
		s.want("the term ends", took, deadline)
	})
}

// TestS6AWatchThatShowsARenewalConfirmsNothing, although right after it comes the answer to
// a read that was made before.
func TestS6AWatchThatShowsARenewalConfirmsNothing(t *testing.T) {
	scenario(t, func(s *stage) {
		var lock *late
		a := s.start("a", func(c *election.Config) {
			lock = &late{Lock: c.Lock}
			c.Lock = lock
		})
		term, _ := a.Leads()
		lock.late.Store(true)
		passes := 2*interval + time.Second + time.Millisecond // until the answer to the read that overtakes it
		time.Sleep(passes)
		if r := s.record(); r.Details.Token == 0 {
			t.Error("no renewal has landed")
		}
		s.want("trust ends", term.TrustedFor(), deadline-passes)
		lock.late.Store(false)
	})
}

// TestS6AnAcquisitionThatAWatchShowsIsConfirmedNotRepeated: right after the watch has shown it
// comes the answer to a read that was made before. A second acquisition would land on the first.
func TestS6AnAcquisitionThatAWatchShowsIsConfirmedNotRepeated(t *testing.T) {
	scenario(t, func(s *stage) {
		var lock *late
		a := s.start("a", func(c *election.Config) {
			lock = &late{Lock: c.Lock}
			lock.late.Store(true)
			c.Lock = lock
		})
		read, overtaken := time.Second, interval+time.Second
		_, took := a.Leads()
		s.want("a leads", took, read+overtaken+read)
		if n := lock.acquisitions.Load(); n != 1 {
			t.Errorf("it took %d acquisitions", n)
		}
		lock.late.Store(false)
	})
}

// late is a lock whose writes take longer than a read waits for, and whose answers take a
// second. Answers to writes get lost.
type late struct {
	locks.Lock
	late         atomic.Bool
	acquisitions atomic.Int64
}

func (l *late) Read(ctx context.Context) (locks.Snapshot, error) {
	s, err := l.Lock.Read(ctx)
	if l.late.Load() {
		time.Sleep(time.Second)
	}
	return s, err
}

func (l *late) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	if r.Details.Token == 0 {
		l.acquisitions.Add(1)
	}
	if !l.late.Load() {
		return l.Lock.Write(ctx, base, r)
	}
	time.Sleep(interval + time.Second/2)
	_, _ = l.Lock.Write(ctx, base, r)
	<-ctx.Done()
	return locks.Snapshot{}, ctx.Err()
}

// TestS8AnAnswerOfAFormerTermWinsNothingThoughItsRecordStands: it may tell only that writes
// work again.
func TestS8AnAnswerOfAFormerTermWinsNothingThoughItsRecordStands(t *testing.T) {
	scenario(t, func(s *stage) {
		answers := make(chan struct{})
		a := s.start("a", func(c *election.Config) { c.Lock = &deaf{Lock: c.Lock, answers: answers} })
		a.Leads() // by a read
		a.link.Set(cut)
		a.Loses()
		time.Sleep(deadline / 2) // by then it waits no longer for the answer
		for _, change := range s.changes(a, func() { close(answers) }) {
			if change != status.ChangeProblem && change != status.ChangeResolved {
				t.Errorf("it publishes %v", change)
			}
		}
	})
}

// changes returns what an event changes about a candidate at once.
func (s *stage) changes(c *seat, event func()) (all []status.Change) {
	synctest.Wait()
	news := c.Subscribe(s.T.Context())
	event()
	for {
		synctest.Wait()
		select {
		case t := <-news:
			all = append(all, t.Change)
		default:
			return all
		}
	}
}

// TestAWriteThatTheEndOfATermCancelsIsNoProblem: another has landed in its place.
func TestAWriteThatTheEndOfATermCancelsIsNoProblem(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		time.Sleep(10 * time.Second)
		a.link.Set(lockstest.Fault{LoseWrites: true})
		time.Sleep(interval)
		a.link.Set(lockstest.Fault{})
		time.Sleep(2 * interval)
		if at := s.changes(a, a.Stop); slices.Contains(at, status.ChangeProblem) || !slices.Contains(at, status.ChangeReleased) {
			t.Errorf("the stop reports %v", at)
		}
	})
}

func TestS8ALateAnswerToAnAcquisitionThatAnotherFollowedWinsNothing(t *testing.T) {
	names := func(holder string) func(*stage) {
		return func(s *stage) {
			s.write(func(r *locks.Record) { r.Holder, r.RenewTime = holder, time.Now() })
		}
	}
	changesNonce := func(s *stage) {
		s.write(func(r *locks.Record) { r.RenewTime, r.Details.Nonce = time.Now(), "another" })
	}
	for what, test := range map[string]struct {
		happens []func(*stage)
		begins  bool
	}{
		"another took the lock":                        {happens: []func(*stage){names("x")}},
		"another took it, and somebody deleted it":     {happens: []func(*stage){names("x"), (*stage).deletes}},
		"another took it, and somebody emptied it":     {happens: []func(*stage){names("x"), names("")}},
		"another process of this identity took it":     {happens: []func(*stage){changesNonce}},
		"somebody deleted it, and nobody had taken it": {happens: []func(*stage){(*stage).deletes}, begins: true},
	} {
		t.Run(what, func(t *testing.T) {
			scenario(t, func(s *stage) {
				answers := make(chan struct{})
				a := s.start("a", func(c *election.Config) { c.Lock = &deaf{Lock: c.Lock, answers: answers} })
				for _, happens := range test.happens {
					happens(s)
					synctest.Wait()
				}
				time.Sleep(deadline / 2) // by then a read has shown it
				got := s.changes(a, func() { close(answers) })
				if test.begins {
					if !slices.Contains(got, status.ChangeLeading) {
						t.Errorf("it publishes %v", got)
					}
					return
				}
				if len(got) > 0 {
					t.Errorf("it publishes %v", got)
				}
				time.Sleep(interval)
				a.Idles()
			})
		})
	}
}

func (s *stage) deletes() { s.lock.Delete() }

// deaf is a lock whose first write is answered only when answers is closed.
type deaf struct {
	locks.Lock
	answers chan struct{}
	writes  atomic.Int64
}

func (l *deaf) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	s, err := l.Lock.Write(ctx, base, r)
	if l.writes.Add(1) == 1 {
		<-l.answers
	}
	return s, err
}

// TestALockIsTakenBackThoughEachAnswerIsOvertaken, as with an API server that takes more
// than half a RenewDeadline for each: an answer that was overtaken counts, too.
func TestALockIsTakenBackThoughEachAnswerIsOvertaken(t *testing.T) {
	for _, timing := range []election.Timing{{}, longTiming, {LeaseDuration: 6 * time.Second, RenewDeadline: 4 * time.Second, RenewInterval: time.Second}} {
		t.Run(fmt.Sprint(timing.RenewDeadline), func(t *testing.T) {
			scenario(t, func(s *stage) {
				a := s.start("a", func(c *election.Config) { c.Timing = timing })
				a.Leads()
				deadline := a.Timing().RenewDeadline
				a.link.Set(lockstest.Fault{Delay: deadline * 3 / 10})
				a.Loses()
				if _, took := a.Leads(); took > 2*deadline {
					t.Errorf("a leads again after %v", took)
				}
				a.link.Set(lockstest.Fault{})
			})
		})
	}
}
