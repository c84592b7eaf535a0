// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
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

func TestWorkDoesNotBeginOnceTrustIsOver(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a", logging(func(string) { time.Sleep(deadline + time.Second) }))
		time.Sleep(lease)
		a.link.Set(cut)
		s.start("b").Leads()
		time.Sleep(time.Minute)
		a.Idles()
	})
}

func TestS1TrustEndsARenewDeadlineAfterTheLastAcknowledgedRenewalWasSent(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.candidate("a")
		a.link.Set(lockstest.Fault{Delay: 300 * time.Millisecond}) // both ways
		a.Start()
		a.Leads() // 600 ms after the acquisition was sent
		a.link.Set(cut)
		s.loses(a, deadline-600*time.Millisecond, election.ErrLost)
	})
}

func TestS1NothingButAnAcknowledgedRenewalExtendsTrust(t *testing.T) {
	type row struct {
		fault lockstest.Fault
		lock  func(*altered)
	}
	each(t, map[string]row{
		"renewals are refused":               {fault: lockstest.Fault{Err: errors.New("connection reset")}},
		"nothing is answered":                {fault: lockstest.Fault{LoseAnswers: true, LoseReads: true, Mute: true}},
		"reads show an earlier renewal":      {fault: lockstest.Fault{LoseWrites: true}},
		"reads may show half of two records": {fault: unanswered, lock: coarse(0)},
	}, func(s *stage, test row) {
		a := s.start("a", altering(func(l *altered) {
			if test.lock != nil {
				test.lock(l)
			}
		}))
		term, _ := a.Leads()
		a.link.Set(test.fault)
		s.loses(a, deadline)
		if left := term.TrustedFor(); left > 0 {
			s.T.Errorf("the term is trusted for another %v", left)
		}
	})
}

func TestS2SuspensionCountsForTheHolder(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.candidate("a")
		asleep := suspends(a)
		a.Start()
		a.SetStopTime(time.Millisecond)
		term, _ := a.Leads()
		synctest.Wait()
		writes := a.link.Calls("write")
		asleep(deadline)
		if left := term.TrustedFor(); left > 0 {
			t.Errorf("right after a suspension of %v the term is trusted for %v", deadline, left)
		}
		took, cause := a.Loses()
		if took > interval/4 || !errors.Is(cause, election.ErrLost) {
			t.Errorf("the term ends after %v, with cause %v", took, cause)
		}
		if after := a.link.Calls("write"); after != writes {
			t.Errorf("%d writes were sent between the suspension and the end of the term", after-writes)
		}
	})
}

// TestS4ACandidateThatWaitsForALongerLeaseSaysSo: it has recreated a deleted record and
// does not know yet who led meanwhile. If it falls silent itself, others must wait for as
// long as it would have.
func TestS4ACandidateThatWaitsForALongerLeaseSaysSo(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.leader("a", func(c *election.Config) { c.Timing = longTiming })
		b := s.start("b")
		a.link.Set(cut)
		b.link.Set(muted) // no watch shows what came before
		s.lock.Delete()
		time.Sleep(2 * longTiming.LeaseDuration)
		if r := s.record(); r.Holder != "b" || r.Details.Waits == "" || r.LeaseDuration != longTiming.LeaseDuration {
			t.Fatalf("b has not recreated the record, or does not wait: %+v", r)
		}
		b.link.Set(whole)
		b.Leads()
		time.Sleep(2 * interval)
		if r := s.record(); r.LeaseDuration != lease {
			t.Errorf("b leads with a lease of %v, want its own", r.LeaseDuration)
		}
	})
}

// TestS4WhatIsDoneToARecordBeforeARenewalIsAnsweredIsNotForgotten: the answer shows the record as it was before.
func TestS4WhatIsDoneToARecordBeforeARenewalIsAnsweredIsNotForgotten(t *testing.T) {
	each(t, map[string]func(*stage){
		"deleted":        (*stage).deletes,
		"a part is gone": func(s *stage) { s.write(func(r *locks.Record) { r.Details.Zone = "harmed" }) },
	}, func(s *stage, happens func(*stage)) {
		a := s.leader("a", altering(func(l *altered) {
			l.event = func(e *locks.Event) { e.Snapshot.Partial = e.Snapshot.Record.Details.Zone == "harmed" }
		}))
		const slow = interval / 8
		a.link.Set(lockstest.Fault{Delay: slow})
		time.Sleep(interval + slow + slow/2) // the renewal has landed, its answer is on its way
		happens(s)
		time.Sleep(slow/2 + slow + time.Millisecond) // the answer, and the next write
		if r := s.record(); r.Holder != "a" || r.Details.Zone != "z-a" {
			s.T.Errorf("the record is still %+v", r)
		}
		a.Stays()
	})
}

func TestS4DeletedIsNotReleased(t *testing.T) {
	for cause, happens := range map[status.Cause]func(*stage){
		status.CauseExpired: func(*stage) {}, status.CauseDeleted: (*stage).deletes,
	} {
		led(t, func(s *stage, a *seat) {
			b := s.start("b")
			time.Sleep(interval*2 + time.Millisecond) // a's last renewal was a millisecond ago
			a.link.Set(cut)
			happens(s)
			term := s.leads(b, lease-time.Millisecond)
			if term.Cause != cause || term.Previous != "a" {
				t.Errorf("the term is %+v", term)
			}
		})
	}
}

// TestS4WhoLearnsByAReadThatTheRecordIsGoneWaitsAWholeLease, or longer if the record asked for that: others
// may have come and gone unseen.
func TestS4WhoLearnsByAReadThatTheRecordIsGoneWaitsAWholeLease(t *testing.T) {
	for _, lasts := range []time.Duration{lease, 2 * lease} {
		scenario(t, func(s *stage) {
			s.write(held(lasts))
			b := s.start("b")
			b.link.Set(cut)
			time.Sleep(lease - time.Second)
			s.lock.Delete()
			b.link.Set(whole)
			term, took := b.Leads()
			if took < lasts || term.Cause != status.CauseDeleted {
				t.Errorf("b leads %v after it could read again: %+v", took, term)
			}
		})
	}
}

// TestS4WaitOnAbsentMakesANewcomerWait, also for a record that says nothing: somebody may have replaced that of a
// holder that still leads. A watch that skips states proves nothing of the time before.
func TestS4WaitOnAbsentMakesANewcomerWait(t *testing.T) {
	waiting := func(c *election.Config) { c.WaitOnAbsent = true }
	waits(t, map[string]sight{"a record that says nothing": {hands: seen(replaced), wait: lease}}, waiting)
	for _, gapless := range []bool{true, false} {
		scenario(t, func(s *stage) {
			a := s.start("a", waiting, altering(func(l *altered) {
				l.event = func(e *locks.Event) { e.Gapless = gapless }
			}))
			time.Sleep(lease - time.Millisecond)
			if now := s.read(); now.Version.Exists() {
				t.Errorf("there is a record before a lease is over: %+v", now)
			}
			s.leads(a, lease+time.Millisecond) // it holds the record for a lease, because it knows no version to watch from
		})
	}
}

func TestS5TheLeaseIsReleasedOnlyAfterTheWorkHasStopped(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		a.SetStopTime(20 * time.Second)
		b := s.start("b")
		a.Stop()
		s.leads(b, 20*time.Second)
	})
}

// TestS5ATermIsTrustedNoMoreWhenItIsReleased: what the work left behind might write beside the next leader.
func TestS5ATermIsTrustedNoMoreWhenItIsReleased(t *testing.T) {
	scenario(t, func(s *stage) {
		var ending atomic.Pointer[election.Term]
		a := s.start("a", altering(func(l *altered) {
			l.write = func(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
				if term := ending.Load(); r.Holder == "" && term.TrustedFor() > 0 {
					t.Errorf("it is trusted for another %v", term.TrustedFor())
				}
				return l.Lock.Write(ctx, base, r)
			}
		}))
		term, _ := a.Leads()
		ending.Store(&term)
		s.resigns(a)
		s.holds("after that", "")
	})
}

func TestS5WorkThatOverrunsItsStopIsNeverReleasedFor(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a", func(c *election.Config) { c.Timing.StopTimeout = 3 * time.Second })
		a.SetStopTime(7 * time.Second)
		transitions := a.Subscribe(s.T.Context())
		a.Leads()
		b := s.start("b")
		synctest.Wait()
		a.Stop()
		time.Sleep(7*time.Second + time.Millisecond)
		s.ends(a)
		s.holds("then", "a")
		b.Idles()
		if got := changes(pending(transitions)); !slices.Contains(got, status.ChangeOverrun) {
			t.Errorf("changes are %v, want the overrun reported", got)
		}
		b.Leads()
	})
}

// TestS5ATermWhoseWorkIsLateIsRenewedNoMore, so that the lease runs out though the work goes on for ever.
func TestS5ATermWhoseWorkIsLateIsRenewedNoMore(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		a.SetStopTime(24 * time.Hour)
		a.Stop()
		time.Sleep(a.Timing().StopTimeout + interval)
		last := s.record().RenewTime
		time.Sleep(time.Hour)
		if now := s.record().RenewTime; !now.Equal(last) {
			t.Errorf("it was renewed at %v", now)
		}
	})
}

// TestARefusedReleaseIsFinal: the server would refuse the next one as well. The lease runs out.
func TestARefusedReleaseIsFinal(t *testing.T) {
	each(t, map[string]error{"403": locks.ErrForbidden, "404": locks.ErrNoAPI}, func(s *stage, refusal error) {
		a := s.leader("a")
		time.Sleep(interval / 2)
		a.link.Set(lockstest.Fault{Err: refusal})
		writes, begun := a.link.Calls("write"), time.Now()
		a.Stop()
		s.ends(a)
		s.want("Run returns", time.Since(begun), 0)
		if n := a.link.Calls("write") - writes; n != 1 || s.record().Holder != "a" {
			s.T.Errorf("%d releases were tried, the holder is %q", n, s.record().Holder)
		}
		s.leads(s.start("b"), lease)
	})
}

func TestS5ALostTermIsReleasedIfTheWorkStoppedInTimeAndItsCandidateLeaves(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.leader("a", func(c *election.Config) { c.StopAtLoss = true })
		b := s.start("b")
		a.link.Set(cut)
		a.Loses()
		a.link.Set(whole)
		if _, took := b.Leads(); took >= lease-deadline {
			t.Errorf("b leads %v after a had stopped: it waited for the lease", took)
		}
		if err := a.Wait(); !errors.Is(err, election.ErrLost) {
			t.Errorf("Run: %v, want ErrLost", err)
		}
	})
}

func TestS6AnAcquisitionWhoseAnswerWasLostIsConfirmedByARead(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.candidate("a")
		a.link.Set(unanswered)
		a.Start()
		time.Sleep(time.Second)
		if landed := s.record(); landed.Holder != "a" || len(a.Leading) != 0 {
			t.Fatalf("the holder is %q, and %d lead", landed.Holder, len(a.Leading))
		}
		term := s.leads(a, interval-time.Second)
		if left := term.TrustedFor(); left != deadline-interval {
			t.Errorf("the term is trusted for %v, though its acquisition was sent %v ago", left, interval)
		}
	})
}

func TestS6OneRequestAtATime(t *testing.T) {
	each(t, map[string]func(*stage, *seat){
		"while there is cause for another": func(s *stage, _ *seat) { s.lock.Delete() },
		"at the end of the term":           func(_ *stage, a *seat) { a.Stop() },
	}, func(s *stage, happens func(*stage, *seat)) {
		var now, most, canceled atomic.Int32
		a := s.leader("a", altering(func(l *altered) {
			l.read = func(ctx context.Context) (locks.Snapshot, error) {
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				return l.Lock.Read(ctx)
			}
			l.write = func(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				defer context.AfterFunc(ctx, func() { canceled.Add(1) })()
				return l.Lock.Write(ctx, base, r)
			}
		}))
		const slow = interval / 4
		a.link.Set(lockstest.Fault{Delay: slow})
		time.Sleep(interval + slow/2) // a renewal is on its way
		happens(s, a)
		time.Sleep(interval)
		if n := most.Load(); n != 1 {
			s.T.Errorf("%d requests were on their way at once", n)
		}
		if n := canceled.Load(); n > 0 {
			s.T.Errorf("%d writes were canceled before they were slow: they may land later", n)
		}
	})
}

func TestS7AnotherHolderEndsTheTermAtOnce(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		s.write(steal)
		took, cause := a.Loses()
		s.want("the term ends", took, 0)
		if !errors.Is(cause, election.ErrLost) || cause.Error() != "leadership lost: somebody else took it: the lock is held by thief" {
			t.Errorf("cause is %v", cause)
		}
		s.write(func(r *locks.Record) { r.RenewTime = r.RenewTime.Add(time.Second) })
		synctest.Wait()
		s.holds("then", "thief")
	})
}

func TestS8TokensGrowAcrossDeletionAndForTheSameHolder(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		for range 5 {
			a.Leads()
			s.resigns(a)
			s.lock.Delete()
		}
		a.Leads() // the checks of the history do the rest
		if n := len(s.History.Terms()); n != 6 {
			t.Errorf("%d terms", n)
		}
	})
}

func TestS8TheTokenIsNotedWithTheNextRenewal(t *testing.T) {
	scenario(t, func(s *stage) {
		term, _ := s.start("a").Leads()
		if r := s.record(); r.Details.Token != 0 {
			t.Errorf("the acquisition has token %d", r.Details.Token)
		}
		time.Sleep(interval + time.Millisecond)
		if r := s.record(); r.Details.Token != term.Token {
			t.Errorf("the record has token %d, the term %d", r.Details.Token, term.Token)
		}
	})
}
