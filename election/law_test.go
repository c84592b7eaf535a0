// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

func TestS1TheWorkEndsWithTheTrustThoughTheElectorHangs(t *testing.T) {
	scenario(t, func(s *stage) {
		hangs := &hangingLog{slowLog: slowLog{}}
		a := s.start("a", func(c *election.Config) { c.Logger = logr.New(hangs) })
		a.Leads()
		hangs.until.Store(int64(time.Minute))
		a.link.Set(lockstest.Fault{Err: errors.New("503")}) // which it logs
		took, cause := a.Loses()
		s.want("the work hears of it", took, deadline)
		if !errors.Is(cause, election.ErrLost) {
			t.Errorf("cause is %v", cause)
		}
	})
}

// hangingLog delays each error line by until, once that is set.
type hangingLog struct {
	slowLog
	until atomic.Int64
}

func (l *hangingLog) WithValues(...any) logr.LogSink { return l }

func (l *hangingLog) Error(error, string, ...any) { time.Sleep(time.Duration(l.until.Load())) }

// TestS1TrustThatRanOutDoesNotComeBack with an answer that is late: the work knows already
// that the term is lost.
func TestS1TrustThatRanOutDoesNotComeBack(t *testing.T) {
	scenario(t, func(s *stage) {
		var asleep atomic.Int64
		a := s.candidate("a")
		a.SetSuspended(func() time.Duration { return time.Duration(asleep.Load()) })
		a.SetStopTime(interval)
		a.Start()
		term, _ := a.Leads()
		a.link.Set(lockstest.Fault{Delay: 700 * time.Millisecond, Mute: true})
		time.Sleep(interval + 900*time.Millisecond) // a renewal has landed, its answer is on its way
		asleep.Store(int64(deadline - interval - 1200*time.Millisecond))
		a.Loses() // before the answer, which would be in time by when it was sent
		time.Sleep(300 * time.Millisecond)
		if left := term.TrustedFor(); left > 0 {
			t.Errorf("the work has heard of the end, and the term is trusted for %v", left)
		}
		a.link.Set(lockstest.Fault{})
		if again, _ := a.Leads(); again.Token <= term.Token {
			t.Errorf("after %+v came %+v", term, again)
		}
	})
}

// TestS3ARenewalDiffersFromTheOneThatItReplaces, even if the clock says the same: otherwise
// candidates would not see that it is a renewal.
func TestS3ARenewalDiffersFromTheOneThatItReplaces(t *testing.T) {
	led(t, func(s *stage, _ *seat) {
		time.Sleep(interval / 2)
		now := time.Now()
		s.write(func(r *locks.Record) { r.RenewTime = now }) // which is mended at once
		synctest.Wait()
		if r := s.record(); r.Details.Token == 0 || r.RenewTime.UnixMicro() == now.UnixMicro() {
			t.Errorf("after the renewal the record is %+v, and said %v before", r, now)
		}
	})
}

// TestAHistoryThatWentBackStartsTheWaitAnew, even if the record that came back is the one
// that was seen before: others may have held the lock since.
func TestAHistoryThatWentBackStartsTheWaitAnew(t *testing.T) {
	scenario(t, func(s *stage) {
		old := locks.Record{Holder: "x", LeaseDuration: lease, RenewTime: time.Now()}
		s.lock.Restore(old)
		s.Restored = true
		b := s.start("b")
		s.write(func(r *locks.Record) { r.Details.Zone = "z" }) // no renewal
		time.Sleep(interval * 3)
		s.lock.Restore(old)
		_, took := b.Leads()
		if took < lease {
			t.Errorf("b leads %v after the restore, want a whole lease from when it saw that", took)
		}
	})
}

// TestS4WhoLearnsByAReadThatTheRecordIsGoneWaitsAWholeLease: others may have come
// and gone unseen.
func TestS4WhoLearnsByAReadThatTheRecordIsGoneWaitsAWholeLease(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		b := s.start("b")
		a.link.Set(cut)
		b.link.Set(cut)
		time.Sleep(lease - time.Second)
		s.lock.Delete()
		b.link.Set(lockstest.Fault{})
		term, took := b.Leads()
		if took < lease || term.Cause != status.CauseDeleted {
			t.Errorf("b leads %v after it could read again: %+v", took, term)
		}
	})
}

// counting is a lock that knows how many requests are on their way.
type counting struct {
	locks.Lock
	now, most atomic.Int32
}

func (l *counting) enter() {
	if n := l.now.Add(1); n > l.most.Load() {
		l.most.Store(n)
	}
}

func (l *counting) Read(ctx context.Context) (locks.Snapshot, error) {
	l.enter()
	defer l.now.Add(-1)
	return l.Lock.Read(ctx)
}

func (l *counting) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	l.enter()
	defer l.now.Add(-1)
	return l.Lock.Write(ctx, base, r)
}

func TestS6OneRequestAtATime(t *testing.T) {
	for name, happens := range map[string]func(*stage, *seat){
		"while there is cause for another": func(s *stage, _ *seat) { s.lock.Delete() },
		"at the end of the term":           func(_ *stage, a *seat) { a.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(s *stage) {
				var lock *counting
				a := s.start("a", func(c *election.Config) {
					lock = &counting{Lock: c.Lock}
					c.Lock = lock
				})
				a.Leads()
				const slow = interval / 4
				a.link.Set(lockstest.Fault{Delay: slow})
				time.Sleep(interval + slow/2) // a renewal is on its way
				happens(s, a)
				time.Sleep(interval)
				if most := lock.most.Load(); most != 1 {
					t.Errorf("%d requests were on their way at once", most)
				}
			})
		})
	}
}

func TestS11ATakeoverBelievesNothingThatIsSaidOfAnotherHolder(t *testing.T) {
	scenario(t, func(s *stage) {
		s.write(func(r *locks.Record) {
			r.Holder, r.LeaseDuration = "client-go", lease
			r.Details = locks.Details{Holder: "x", Zone: "old", Pod: locks.Pod{Name: "old", UID: "old"}}
		})
		a := s.start("a", func(c *election.Config) {
			c.TakeoverDelay = func(o election.Takeover) time.Duration {
				if o.Previous != "client-go" || o.PreviousZone != "" {
					t.Errorf("takeover delay is asked for %+v", o)
				}
				return 0
			}
		})
		a.Leads()
	})
}

// TestS1ARenewalThatClientGoCannotTellFromTheOneBeforeExtendsNoTrust: client-go
// compares times in whole seconds, and counts from the first of two renewals in one
// second.
func TestS1ARenewalThatClientGoCannotTellFromTheOneBeforeExtendsNoTrust(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		time.Sleep(interval)
		synctest.Wait()
		seen := s.record().RenewTime
		time.Sleep(900 * time.Millisecond)
		s.write(func(r *locks.Record) { r.LeaseDuration = time.Second }) // which is mended at once
		synctest.Wait()
		if now := s.record().RenewTime; now.Equal(seen) || now.Unix() != seen.Unix() {
			t.Fatalf("renewed at %v and %v: this tests nothing", seen, now)
		}
		a.link.Set(cut)
		a.Loses()
		if stopped, free := time.Now().Add(a.Timing().StopGrace), seen.Add(lease); stopped.After(free) {
			t.Errorf("its work may end at %v, and client-go takes the lock at %v", stopped, free)
		}
	})
}

// TestS4ABlindCandidateDoesNotGoByWhatItKnewOfADeletion, if a watch leaves states out:
// another candidate may have had the lock while its watch was broken.
func TestS4ABlindCandidateDoesNotGoByWhatItKnewOfADeletion(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		b := s.start("b", func(c *election.Config) { c.Lock = coarse{c.Lock, time.Second} })
		a.link.Set(cut)
		s.lock.Delete()
		a.Stop()
		time.Sleep(lease - 2*time.Second) // b has heard of it for all but three seconds of a lease
		b.link.Set(lockstest.Fault{Err: errors.New("503")})
		c := s.start("c")
		c.Leads()
		c.link.Set(cut)
		s.lock.Delete()
		s.lock.Expire()
		b.link.Set(lockstest.Fault{})
		b.Leads()
		time.Sleep(time.Second) // c would still work
	})
}

// What another holder's lease says counts if it is longer than this candidate's own, as in
// a rollout that shortens LeaseDuration.

func TestS4WhoLearnsByAReadThatALongerLeaseIsGoneWaitsThatLong(t *testing.T) {
	scenario(t, func(s *stage) {
		s.write(func(r *locks.Record) {
			*r = locks.Record{Holder: "x", LeaseDuration: 2 * lease, RenewTime: time.Now()}
		})
		b := s.start("b")
		b.link.Set(cut)
		time.Sleep(lease)
		s.lock.Delete()
		b.link.Set(lockstest.Fault{})
		_, took := b.Leads()
		if took < 2*lease {
			t.Errorf("b leads %v after it could read again", took)
		}
	})
}

func TestS4WhoMakesARecordOfALongerLeaseAnewWaitsThatLongForItsPast(t *testing.T) {
	scenario(t, func(s *stage) {
		s.write(func(r *locks.Record) {
			*r = locks.Record{Holder: "x", LeaseDuration: 2 * lease, RenewTime: time.Now()}
		})
		c := s.start("c")
		s.lock.Delete()
		synctest.Wait()
		time.Sleep(2*lease - time.Second)
		c.link.Set(lockstest.Fault{Mute: true})
		_, took := c.Leads()
		s.want("c leads", took, time.Second+2*lease)
	})
}
