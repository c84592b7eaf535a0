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
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

// amending counts the amendments of a lock.
type amending struct {
	locks.Amender
	err     error // if set, the answer to each, as late as on a slow server
	sent    atomic.Int64
	last    atomic.Int64 // when the last one was sent, in nanoseconds
	closest atomic.Int64 // the shortest time between two, in nanoseconds
}

func (l *amending) Amend(ctx context.Context, before, r locks.Record) (locks.Snapshot, error) {
	now := time.Now().UnixNano()
	if gap := now - l.last.Swap(now); l.sent.Add(1) == 1 || gap < l.closest.Load() {
		l.closest.Store(gap)
	}
	if l.err != nil {
		time.Sleep(slow)
		return locks.Snapshot{}, l.err
	}
	return l.Amender.Amend(ctx, before, r)
}

// slow is a lock whose answers take most of a RenewDeadline.
const slow = 8 * time.Second

// onSlow starts a candidate, makes its lock slow by delay per answer, and returns when the
// lock has been slow for a while.
func onSlow(s *stage, delay time.Duration, change ...func(*amending)) (*seat, *amending) {
	var lock *amending
	a := s.start("a", func(c *election.Config) {
		lock = &amending{Amender: c.Lock.(locks.Amender)}
		for _, do := range change {
			do(lock)
		}
		c.Lock = lock
	})
	a.link.Set(lockstest.Fault{Delay: delay / 2})
	a.wins(2 * time.Minute)
	return a, lock
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

func TestLeadershipHoldsWhileAnAnswerTakesMostOfARenewDeadline(t *testing.T) {
	for _, delay := range []time.Duration{deadline/2 + interval/4, 6 * time.Second, slow, deadline - interval/2} {
		t.Run(fmt.Sprint(delay), func(t *testing.T) {
			scenario(t, func(s *stage) {
				a, _ := onSlow(s, delay)
				time.Sleep(10 * time.Minute)
				a.Stays()
			})
		})
	}
}

// TestS1AnAmendmentExtendsTrustFromWhenItWasSent, not from when the write before it
// was, nor from the answer.
func TestS1AnAmendmentExtendsTrustFromWhenItWasSent(t *testing.T) {
	scenario(t, func(s *stage) {
		a, _ := onSlow(s, slow)
		term := a.Term()
		for range 100 {
			time.Sleep(time.Second / 3)
			if left := term.TrustedFor(); left > deadline-slow {
				t.Fatalf("trusted for another %v, though each answer is %v late", left, slow)
			}
		}
	})
}

func TestAFastServerIsSentNoAmendments(t *testing.T) {
	scenario(t, func(s *stage) {
		a, lock := onSlow(s, 3*time.Second)
		time.Sleep(10 * time.Minute)
		if n := lock.sent.Load(); n > 0 {
			t.Errorf("%d amendments", n)
		}
		a.Stays()
	})
}

func TestASlowServerIsSentNoMoreThanARenewalASecond(t *testing.T) {
	scenario(t, func(s *stage) {
		_, lock := onSlow(s, slow)
		time.Sleep(10 * time.Minute)
		if gap := time.Duration(lock.closest.Load()); gap < time.Second {
			t.Errorf("two amendments within %v", gap)
		}
	})
}

// TestWhoMayNotAmendGoesOnWithout, reports no problem, and does not try a second time.
// Learning it may cost a term.
func TestWhoMayNotAmendGoesOnWithout(t *testing.T) {
	for _, err := range []error{locks.ErrForbidden, locks.ErrNoAPI} {
		scenario(t, func(s *stage) {
			var lock *amending
			a := s.start("a", func(c *election.Config) {
				lock = &amending{Amender: c.Lock.(locks.Amender), err: fmt.Errorf("patch: %w", err)}
				c.Lock = lock
			})
			a.Leads()
			news := a.Subscribe(s.T.Context())
			a.link.Set(lockstest.Fault{Delay: (deadline/2 - interval/20) / 2})
			a.wins(time.Minute)
			time.Sleep(10 * time.Minute)
			a.Stays()
			if n := lock.sent.Load(); n == 0 || n > mostUnderWay {
				t.Errorf("%d amendments", n)
			}
			for over := time.After(time.Second); ; {
				select {
				case n := <-news:
					if n.Change == status.ChangeProblem {
						t.Error(n.Status.Problem)
					}
					continue
				case <-over:
				}
				break
			}
		})
	}
}

// mostUnderWay is how many amendments may be under way when the first one fails.
const mostUnderWay = 12

// TestAmendmentsThatFailAgainAndAgainEnd, as if admission changes what is written.
func TestAmendmentsThatFailAgainAndAgainEnd(t *testing.T) {
	scenario(t, func(s *stage) {
		a, lock := onSlow(s, slow, func(l *amending) { l.err = fmt.Errorf("patch: %w", locks.ErrConflict) })
		a.wins(time.Hour)
		n := lock.sent.Load()
		a.wins(time.Hour)
		if more := lock.sent.Load() - n; more > 0 {
			t.Errorf("%d more amendments after an hour with %d", more, n)
		}
	})
}

// TestS3AHandsEditUnderAmendmentsIsMended: a follower would believe the renewal of a record
// with a shorter lease.
func TestS3AHandsEditUnderAmendmentsIsMended(t *testing.T) {
	for what, edit := range map[string]func(*locks.Record){
		"a shorter lease": func(r *locks.Record) { r.LeaseDuration = time.Second },
		"a lost token":    func(r *locks.Record) { r.Details.Token = 0 },
		"another nonce":   func(r *locks.Record) { r.Details.Nonce = "n" },
		"an older time":   func(r *locks.Record) { r.RenewTime = r.RenewTime.Add(-time.Hour) },
	} {
		t.Run(what, func(t *testing.T) {
			scenario(t, func(s *stage) {
				onSlow(s, slow)
				whole := s.record()
				edited := s.write(edit)
				for range 600 {
					time.Sleep(100 * time.Millisecond)
					r := s.record()
					if r.RenewTime.Equal(edited.Record.RenewTime) {
						continue
					}
					if same := r.AcquireTime.Equal(whole.AcquireTime); r.LeaseDuration != whole.LeaseDuration || same && r.Details != whole.Details {
						t.Fatalf("renewed as it was edited: %+v", r)
					}
				}
				if s.record().RenewTime.Equal(edited.Record.RenewTime) {
					t.Error("not renewed for a minute")
				}
			})
		})
	}
}

// TestS5NothingAmendsAReleasedRecord: amendments are under way when the work ends.
func TestS5NothingAmendsAReleasedRecord(t *testing.T) {
	scenario(t, func(s *stage) {
		a, _ := onSlow(s, slow)
		term := a.Term()
		a.Stop()
		if err := a.Wait(); err != nil {
			t.Fatal(err)
		}
		for range 300 {
			if r := s.record(); r.Holder != "" || r.Details.Released != term.Token {
				t.Fatalf("%+v", r)
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// TestAmendmentsKeepWhatOthersAsk for, and the leader does it.
func TestAmendmentsKeepWhatOthersAsk(t *testing.T) {
	scenario(t, func(s *stage) {
		onSlow(s, slow)
		b := s.start("b")
		time.Sleep(time.Second)
		s.asks(`{"holder":"a","to":"b"}`)
		b.Leads()
	})
}

// TestATermThatBeganSlowlyHasItsTokenOnTheRecord, though its acquisition was amended
// before the token was known.
func TestATermThatBeganSlowlyHasItsTokenOnTheRecord(t *testing.T) {
	scenario(t, func(s *stage) {
		var lock *amending
		a := s.candidate("a", func(c *election.Config) {
			lock = &amending{Amender: c.Lock.(locks.Amender)}
			c.Lock = lock
		})
		a.link.Set(lockstest.Fault{Delay: slow / 2})
		a.Start()
		a.wins(2 * time.Minute)
		term := a.Term()
		if lock.sent.Load() == 0 {
			t.Error("the acquisition was not amended")
		}
		time.Sleep(2 * slow)
		a.Stays()
		if r := s.record(); r.Details.Token != term.Token {
			t.Errorf("token %d on the record, %d in the term", r.Details.Token, term.Token)
		}
	})
}
