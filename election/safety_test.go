// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/electiontest"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
	"github.com/zonelect/zonelect/locks/memory"
)

// The timing of all scenarios: 15 s / 10 s / 2 s.
const (
	lease    = timing.DefaultLeaseDuration
	deadline = timing.DefaultRenewDeadline
	interval = timing.DefaultRenewInterval
)

// longTiming is the timing of a candidate with a longer lease than the others.
var longTiming = election.Timing{LeaseDuration: 30 * time.Second, RenewDeadline: 20 * time.Second, RenewInterval: 5 * time.Second}

// stage is one lock, and the candidates for it, in a bubble of virtual time.
type stage struct {
	*electiontest.Stage
	lock *memory.Lock
}

// seat is one candidate.
type seat struct {
	*electiontest.Seat
	link *lockstest.Faulty
}

// scenario runs f in a bubble, and checks the history at its end.
func scenario(t *testing.T, f func(s *stage)) {
	t.Helper()
	electiontest.Scenario(t, func(on *electiontest.Stage) {
		f(&stage{on, memory.New("lock")})
	})
}

func (s *stage) candidate(identity string, change ...func(*election.Config)) *seat {
	s.T.Helper()
	link := lockstest.NewFaulty(s.lock)
	s.T.Cleanup(func() { link.Set(lockstest.Fault{}) })
	config := election.Config{Lock: link, Candidate: locks.Candidate{Identity: identity, Zone: "z-" + identity}, TakeoverDelay: none}
	for _, f := range change {
		f(&config)
	}
	return &seat{s.Seat(config), link}
}

// none is a takeover delay that leaves out the spread, so that a test can tell to the
// nanosecond when a lock is taken.
func none(election.Takeover) time.Duration { return 0 }

// start makes a candidate and lets it campaign until all is quiet.
func (s *stage) start(identity string, change ...func(*election.Config)) *seat {
	s.T.Helper()
	c := s.candidate(identity, change...)
	c.Start()
	return c
}

func (s *stage) want(what string, got, want time.Duration) {
	s.T.Helper()
	if got != want {
		s.T.Errorf("%s after %v, want %v", what, got, want)
	}
}

// write puts a record on the lock without the candidates' knowledge, as another program
// would.
func (s *stage) write(change func(*locks.Record)) locks.Snapshot {
	s.T.Helper()
	now, err := s.lock.Read(s.T.Context())
	if err != nil {
		s.T.Fatal(err)
	}
	change(&now.Record)
	if now, err = s.lock.Write(s.T.Context(), now.Version, now.Record); err != nil {
		s.T.Fatal(err)
	}
	return now
}

func (s *stage) record() locks.Record {
	s.T.Helper()
	now, err := s.lock.Read(s.T.Context())
	if err != nil {
		s.T.Fatal(err)
	}
	return now.Record
}

var cut = lockstest.Fault{Hang: true}

// slowLog delays each line, like a process that is stopped there.
type slowLog struct {
	logr.LogSink
	takes time.Duration
}

func (l slowLog) Init(logr.RuntimeInfo)          {}
func (l slowLog) Enabled(int) bool               { return true }
func (l slowLog) Info(int, string, ...any)       { time.Sleep(l.takes) }
func (l slowLog) Error(error, string, ...any)    { time.Sleep(l.takes) }
func (l slowLog) WithValues(...any) logr.LogSink { return l }

func TestWorkDoesNotBeginOnceTrustIsOver(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a", func(c *election.Config) { c.Logger = logr.New(slowLog{takes: deadline + time.Second}) })
		time.Sleep(lease)
		a.link.Set(cut)
		s.start("b").Leads()
		time.Sleep(time.Minute)
		a.Idles()
	})
}

func TestTheFirstCandidateLeadsAtOnce(t *testing.T) {
	scenario(t, func(s *stage) {
		term, took := s.start("a").Leads()
		s.want("leads", took, 0)
		if term.Cause != status.CauseAbsent || term.Token == 0 || term.Holder != "a" {
			t.Errorf("the term is %+v", term)
		}
	})
}

func TestAFollowerLeadsAsSoonAsTheLeaseHasExpired(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		b := s.start("b")
		time.Sleep(interval*5 + time.Millisecond) // a's last renewal was a millisecond ago
		a.link.Set(cut)
		term, took := b.Leads()
		s.want("b leads", took, lease-time.Millisecond)
		if term.Cause != status.CauseExpired || term.Previous != "a" {
			t.Errorf("the term is %+v", term)
		}
	})
}

func TestAReleaseHandsOverAtOnce(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		b := s.start("b")
		c := s.start("c")
		a.Stop()
		synctest.Wait()
		if len(b.Leading)+len(c.Leading) != 1 {
			t.Errorf("%d lead right after the release, want 1", len(b.Leading)+len(c.Leading))
		}
	})
}

func TestS1TrustEndsARenewDeadlineAfterTheLastAcknowledgedRenewalWasSent(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.candidate("a")
		a.link.Set(lockstest.Fault{Delay: 300 * time.Millisecond}) // both ways
		a.Start()
		a.Leads() // 600 ms after the acquisition was sent
		a.link.Set(cut)
		took, cause := a.Loses()
		s.want("the term ends", took, deadline-600*time.Millisecond)
		if !errors.Is(cause, election.ErrLost) {
			t.Errorf("cause is %v", cause)
		}
	})
}

func TestS1AnAnswerThatNeverComesDoesNotKeepTheTerm(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		term, _ := a.Leads()
		a.link.Set(lockstest.Fault{LoseAnswers: true, LoseReads: true, Mute: true})
		took, _ := a.Loses()
		s.want("the term ends", took, deadline)
		if left := term.TrustedFor(); left > 0 {
			t.Errorf("the term is trusted for another %v", left)
		}
	})
}

func TestS2SuspensionCountsForTheHolder(t *testing.T) {
	scenario(t, func(s *stage) {
		var asleep atomic.Int64
		a := s.candidate("a")
		a.SetSuspended(func() time.Duration { return time.Duration(asleep.Load()) })
		a.Start()
		a.SetStopTime(time.Millisecond)
		term, _ := a.Leads()
		synctest.Wait()
		writes := a.link.Calls("write")
		asleep.Store(int64(deadline))
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

func TestS3ANewcomerWaitsInFullFromItsFirstSight(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		a.link.Set(cut)
		time.Sleep(14 * time.Second)
		_, took := s.start("b").Leads()
		s.want("b leads", took, lease)
	})
}

func TestS3ALagBehindIsNotASignOfLife(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		b := s.start("b")
		a.link.Set(cut)
		for range 7 { // labels and annotations change, the spec does not
			time.Sleep(2 * time.Second)
			s.write(func(r *locks.Record) { r.Details.Node = time.Now().String() })
		}
		_, took := b.Leads()
		s.want("b leads", took, lease-14*time.Second)
	})
}

func TestS3ANewSpecStartsTheWaitAnew(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		b := s.start("b")
		a.link.Set(cut)
		time.Sleep(9 * time.Second)
		s.write(func(r *locks.Record) { r.RenewTime = r.RenewTime.Add(time.Microsecond) })
		_, took := b.Leads()
		s.want("b leads", took, lease)
	})
}

// TestS3WithoutTimesEachVersionIsARenewal: somebody removed them, perhaps from one that
// this candidate has not seen.
func TestS3WithoutTimesEachVersionIsARenewal(t *testing.T) {
	scenario(t, func(s *stage) {
		garble := func(r *locks.Record) {
			*r = locks.Record{Holder: "x", LeaseDuration: lease}
		}
		s.write(garble)
		b := s.start("b")
		time.Sleep(lease - time.Second)
		s.write(garble)
		_, took := b.Leads()
		s.want("the takeover", took, lease)
	})
}

// TestS3ALeaseWithoutADurationLastsAsLongAsBefore: somebody removed duration and times from
// the record of a holder that is cut off and has a longer lease than others.
func TestS3ALeaseWithoutADurationLastsAsLongAsBefore(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a", func(c *election.Config) { c.Timing = longTiming })
		a.Leads()
		b := s.start("b")
		a.link.Set(cut)
		s.write(func(r *locks.Record) { r.LeaseDuration, r.AcquireTime, r.RenewTime = 0, time.Time{}, time.Time{} })
		_, took := b.Leads()
		s.want("the takeover", took, longTiming.LeaseDuration)
	})
}

// TestS3AHolderWhoseDurationIsMissingIsNotTakenByTime: nobody knows how long it leads. The
// reader's own lease says nothing about that.
func TestS3AHolderWhoseDurationIsMissingIsNotTakenByTime(t *testing.T) {
	was := time.Now()
	for name, test := range map[string]struct {
		record locks.Record
		then   func(*locks.Record)
		wait   time.Duration
	}{
		"no duration, then one": {locks.Record{Holder: "x", RenewTime: was}, func(r *locks.Record) {
			r.LeaseDuration, r.RenewTime = 40*time.Second, was.Add(time.Minute)
		}, 40 * time.Second},
		"negative duration, then released": {locks.Record{Holder: "x", LeaseDuration: -time.Hour, RenewTime: was}, func(r *locks.Record) {
			*r = locks.Record{LeaseDuration: time.Second, RenewTime: was.Add(time.Minute)}
		}, 0},
		"no times either, then another holder": {locks.Record{Holder: "x"}, func(r *locks.Record) {
			*r = locks.Record{Holder: "y", LeaseDuration: lease, RenewTime: was}
		}, lease},
		"after a holder with a duration": {locks.Record{Holder: "w", LeaseDuration: lease, RenewTime: was}, func(r *locks.Record) {
			*r = locks.Record{Holder: "x", RenewTime: was.Add(time.Minute)}
		}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(s *stage) {
				s.write(func(r *locks.Record) { *r = test.record })
				a := s.start("a")
				wait := 10 * time.Hour
				if test.record.LeaseDuration > 0 {
					wait = lease / 2
				}
				time.Sleep(wait)
				a.Idles()
				s.write(test.then)
				if test.wait < 0 {
					time.Sleep(10 * time.Hour)
					a.Idles()
					return
				}
				_, took := a.Leads()
				s.want("the takeover", took, test.wait)
			})
		})
	}
}

// TestS4ACandidateThatWaitsForALongerLeaseSaysSo: it has recreated a deleted record and
// does not know yet who led meanwhile. If it falls silent itself, others must wait for as
// long as it would have.
func TestS4ACandidateThatWaitsForALongerLeaseSaysSo(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a", func(c *election.Config) { c.Timing = longTiming })
		a.Leads()
		b := s.start("b")
		a.link.Set(cut)
		b.link.Set(lockstest.Fault{Mute: true}) // no watch shows what came before
		s.lock.Delete()
		time.Sleep(2 * longTiming.LeaseDuration)
		if r := s.record(); r.Holder != "b" || r.Details.Waits == "" || r.LeaseDuration != longTiming.LeaseDuration {
			t.Fatalf("b has not recreated the record, or does not wait: %+v", r)
		}
		b.link.Set(lockstest.Fault{})
		b.Leads()
		time.Sleep(2 * interval)
		if r := s.record(); r.LeaseDuration != lease {
			t.Errorf("b leads with a lease of %v, want its own", r.LeaseDuration)
		}
	})
}

func TestS3ASilentWatchIsDoubtedOnceByARead(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		b := s.start("b")
		b.link.Set(lockstest.Fault{Mute: true})
		time.Sleep(time.Minute)
		b.Idles()
		b.link.Set(lockstest.Fault{})
		time.Sleep(2 * lease)
		reads := b.link.Calls("read")
		time.Sleep(5 * time.Minute)
		if more := b.link.Calls("read") - reads; more != 0 {
			t.Errorf("%d reads in five minutes on a watch that works", more)
		}
	})
}

// chatty is a lock whose watches report on request that nothing happened.
type chatty struct {
	locks.Lock
	ask <-chan struct{}
}

func (l chatty) Watch(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
	between, ended := make(chan locks.Event), make(chan error, 1)
	go func() { ended <- l.Lock.Watch(ctx, from, between) }()
	e := locks.Event{}
	for {
		select {
		case e = <-between:
		case <-l.ask:
			e.Bookmark = true
		case err := <-ended:
			return err
		}
		select {
		case events <- e:
		case <-ctx.Done():
		}
	}
}

func TestS3ABookmarkIsNoRenewalAndPutsNoReadOff(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		ask := make(chan struct{})
		b := s.start("b", func(c *election.Config) { c.Lock = chatty{c.Lock, ask} })
		const interval = timing.DefaultRenewInterval
		time.Sleep(4*interval - time.Millisecond)
		ask <- struct{}{}
		b.link.Set(lockstest.Fault{Mute: true}) // its connection dies
		time.Sleep(2 * time.Millisecond)        // the last renewal
		a.link.Set(cut)
		b.link.Set(lockstest.Fault{})
		_, took := b.Leads()
		s.want("b leads", took, lease+interval/2-time.Millisecond)
	})
}

func TestS3ALeaseThatAnotherClearedIsNotGivenUp(t *testing.T) {
	for name, later := range map[string]time.Duration{"by hand": 0, "by a client-go that was paused": time.Second} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(s *stage) {
				a := s.start("a")
				a.Leads()
				time.Sleep(interval + time.Millisecond) // the token is noted
				a.link.Set(lockstest.Fault{Mute: true})
				b := s.start("b")
				s.write(func(r *locks.Record) {
					r.Holder, r.LeaseDuration, r.RenewTime = "", time.Second, r.RenewTime.Add(later)
				})
				b.Idles()
				took, cause := a.Loses() // its next renewal conflicts
				if !errors.Is(cause, election.ErrLost) || took > interval {
					t.Errorf("a ended after %v with %v", took, cause)
				}
			})
		})
	}
}

// afterAForeignTerm returns a follower that has seen a lead for a duration, then client-go
// lead and give the lock up.
func (s *stage) afterAForeignTerm(led time.Duration) *seat {
	a := s.start("a")
	a.Leads()
	time.Sleep(led)
	a.link.Set(cut)
	b := s.start("b", func(c *election.Config) {
		c.TakeoverDelay = func(o election.Takeover) time.Duration {
			if o.Cause == status.CauseExpired {
				return time.Minute // the foreigner comes first
			}
			return 0
		}
	})
	time.Sleep(lease)
	s.write(func(r *locks.Record) { r.Holder = "client-go"; r.Transitions++ })
	synctest.Wait()
	s.write(func(r *locks.Record) { r.Holder, r.LeaseDuration, r.RenewTime = "", time.Second, time.Now() })
	return b
}

func TestS3WhatAForeignHolderReleasedIsFree(t *testing.T) {
	scenario(t, func(s *stage) {
		term, took := s.afterAForeignTerm(interval + time.Millisecond).Leads()
		s.want("b leads", took, 0)
		if term.Cause != status.CauseReleased || term.Previous != "client-go" {
			t.Errorf("the term is %+v", term)
		}
	})
}

// The record has no token of a term that was never renewed. Then a follower cannot tell
// whether a client-go candidate gave up its own term, or cleared the next zonelect term.
func TestS3AForeignReleaseAfterATermWithoutATokenIsWaitedFor(t *testing.T) {
	scenario(t, func(s *stage) {
		term, took := s.afterAForeignTerm(0).Leads()
		s.want("b leads", took, lease)
		if term.Cause != status.CauseCleared {
			t.Errorf("the term is %+v", term)
		}
	})
}

func TestS4TheHolderMakesADeletedRecordAnewAndKeepsItsTerm(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		b := s.start("b")
		time.Sleep(interval + interval/2)
		s.lock.Delete()
		synctest.Wait()
		if r := s.record(); r.Holder != "a" {
			t.Errorf("right after the deletion the holder is %q", r.Holder)
		}
		time.Sleep(time.Minute)
		a.Idles() // no second term
		b.Idles()
	})
}

// partial marks every record that others wrote as partial.
type partial struct{ *memory.Lock }

func (p partial) Watch(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
	between, ended := make(chan locks.Event), make(chan error, 1)
	go func() { ended <- p.Lock.Watch(ctx, from, between) }()
	for {
		select {
		case e := <-between:
			e.Snapshot.Partial = e.Snapshot.Record.Details.Zone == "harmed"
			select {
			case events <- e:
			case <-ctx.Done():
			}
		case err := <-ended:
			return err
		}
	}
}

func TestS4TheHolderMendsAPartialRecordAtOnce(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a", func(c *election.Config) { c.Lock = partial{s.lock} })
		a.Leads()
		time.Sleep(interval + interval/2)
		s.write(func(r *locks.Record) { r.Details.Zone = "harmed" })
		synctest.Wait()
		if r := s.record(); r.Holder != "a" || r.Details.Zone != "z-a" {
			t.Errorf("right after it was harmed the record is %+v", r)
		}
		a.Idles()
	})
}

func TestS4ADeletionHeardBeforeTheRenewalsAnswerIsNotForgotten(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		const slow = interval / 8
		a.link.Set(lockstest.Fault{Delay: slow})
		time.Sleep(interval + slow + slow/2) // the renewal has landed, its answer is on its way
		s.lock.Delete()
		time.Sleep(slow/2 + slow + time.Millisecond) // the answer, and the next write
		if r := s.record(); r.Holder != "a" {
			t.Errorf("the holder is %q", r.Holder)
		}
		a.Stays()
	})
}

func TestS4APartThatIsHeardGoneBeforeTheRenewalsAnswerIsMendedAtOnce(t *testing.T) {
	scenario(t, func(s *stage) {
		link := lockstest.NewFaulty(partial{s.lock})
		a := s.start("a", func(c *election.Config) { c.Lock = link })
		a.Leads()
		const slow = interval / 8
		link.Set(lockstest.Fault{Delay: slow})
		time.Sleep(interval + slow + slow/2) // the renewal has landed, its answer is on its way
		s.write(func(r *locks.Record) { r.Details.Zone = "harmed" })
		time.Sleep(slow/2 + slow + time.Millisecond) // the answer, and the next write
		if r := s.record(); r.Details.Zone != "z-a" {
			t.Errorf("the record is still %+v", r)
		}
		link.Set(lockstest.Fault{})
	})
}

func TestS4DeletedIsNotReleased(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		b := s.start("b")
		time.Sleep(interval*2 + time.Millisecond)
		a.link.Set(cut)
		s.lock.Delete()
		term, took := b.Leads()
		s.want("b leads", took, lease-time.Millisecond)
		if term.Cause != status.CauseDeleted {
			t.Errorf("cause is %q", term.Cause)
		}
	})
}

func TestS4WaitOnAbsentMakesANewcomerWait(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a", func(c *election.Config) { c.WaitOnAbsent = true })
		time.Sleep(lease - time.Millisecond)
		if now, _ := s.lock.Read(s.T.Context()); now.Version.Exists() {
			t.Errorf("there is a record before a lease is over: %+v", now)
		}
		_, took := a.Leads() // it holds the record for a lease, because it knows no version to watch from
		s.want("a leads", took, lease+time.Millisecond)
	})
}

// TestS4ARecordThatSaysNothingIsWaitedForAsIfThereWereNone: somebody may have replaced that of a
// holder that still leads.
func TestS4ARecordThatSaysNothingIsWaitedForAsIfThereWereNone(t *testing.T) {
	for waits, want := range map[bool]time.Duration{false: 0, true: lease} {
		scenario(t, func(s *stage) {
			s.write(replaced)
			a := s.start("a", func(c *election.Config) { c.WaitOnAbsent = waits })
			_, took := a.Leads() // it replaces the very version that it saw, so it need not wait again
			s.want("a leads", took, want)
		})
	}
}

func TestS5TheLeaseIsReleasedOnlyAfterTheWorkHasStopped(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.SetStopTime(20 * time.Second)
		a.Leads()
		b := s.start("b")
		a.Stop()
		_, took := b.Leads()
		s.want("b leads", took, 20*time.Second)
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
		if err := a.Wait(); err != nil {
			t.Errorf("Run: %v", err)
		}
		if r := s.record(); r.Holder != "a" {
			t.Errorf("the holder is %q after an overrun", r.Holder)
		}
		b.Idles()
		var changes []status.Change
		for len(changes) == 0 || changes[len(changes)-1] != status.ChangeStopped {
			changes = append(changes, (<-transitions).Change)
		}
		if got := changes[len(changes)-2]; got != status.ChangeOverrun {
			t.Errorf("changes are %v, want the overrun reported", changes)
		}
		b.Leads()
	})
}

// TestS5ATermWhoseWorkIsLateIsRenewedNoMore, so that the lease runs out though the work goes on for ever.
func TestS5ATermWhoseWorkIsLateIsRenewedNoMore(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.SetStopTime(24 * time.Hour)
		a.Leads()
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
	for name, refusal := range map[string]error{"403": locks.ErrForbidden, "404": locks.ErrNoAPI} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(s *stage) {
				a := s.start("a")
				a.Leads()
				time.Sleep(interval / 2)
				a.link.Set(lockstest.Fault{Err: refusal})
				writes, begun := a.link.Calls("write"), time.Now()
				a.Stop()
				if err := a.Wait(); err != nil {
					t.Error(err)
				}
				s.want("Run returns", time.Since(begun), 0)
				if n := a.link.Calls("write") - writes; n != 1 || s.record().Holder != "a" {
					t.Errorf("%d releases were tried, the holder is %q", n, s.record().Holder)
				}
				_, took := s.start("b").Leads()
				s.want("b leads", took, lease)
			})
		})
	}
}

func TestS5WorkThatReturnsUnfinishedIsNotReleasedFor(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		b := s.start("b")
		a.Quit <- fmt.Errorf("a part of it hangs: %w", election.ErrUnfinished)
		if err := a.Wait(); !errors.Is(err, election.ErrUnfinished) {
			t.Errorf("Run: %v", err)
		}
		term, took := b.Leads()
		s.want("b leads", took, lease)
		if term.Cause != status.CauseExpired {
			t.Errorf("the cause is %s", term.Cause)
		}
	})
}

func TestS5ALostTermIsReleasedIfTheWorkStoppedInTimeAndItsCandidateLeaves(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a", func(c *election.Config) { c.StopAtLoss = true })
		a.Leads()
		b := s.start("b")
		a.link.Set(cut)
		a.Loses()
		a.link.Set(lockstest.Fault{})
		_, took := b.Leads()
		if took >= lease-deadline {
			t.Errorf("b leads %v after a had stopped: it waited for the lease", took)
		}
	})
}

func TestATermThatWasLostForWantOfAnswersIsFollowedByTheSameLeaders(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		first, _ := a.Leads()
		b := s.start("b")
		a.link.Set(cut)
		a.Loses()
		a.link.Set(lockstest.Fault{})
		second, took := a.Leads()
		if second.Token <= first.Token || second.Cause != status.CauseReclaimed || took >= lease-deadline {
			t.Errorf("%v after %+v came %+v", took, first, second)
		}
		b.Idles()
	})
}

func TestS6AnAcquisitionWhoseAnswerWasLostIsConfirmedByARead(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.candidate("a")
		a.link.Set(lockstest.Fault{LoseAnswers: true})
		a.Start()
		time.Sleep(time.Second)
		if landed := s.record(); landed.Holder != "a" || len(a.Leading) != 0 {
			t.Fatalf("the holder is %q, and %d lead", landed.Holder, len(a.Leading))
		}
		term, took := a.Leads()
		s.want("a leads", took, interval-time.Second)
		if left := term.TrustedFor(); left != deadline-interval {
			t.Errorf("the term is trusted for %v, though its acquisition was sent %v ago", left, interval)
		}
	})
}

func TestS6ARenewalWhoseAnswerWasLostDoesNotEndTheTerm(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		for range 20 {
			a.link.Set(lockstest.Fault{LoseAnswers: true})
			time.Sleep(3 * time.Second)
			a.link.Set(lockstest.Fault{})
			time.Sleep(3 * time.Second)
		}
		a.Stays()
	})
}

func TestS7AnotherHolderEndsTheTermAtOnce(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		s.write(func(r *locks.Record) { r.Holder = "thief" })
		took, cause := a.Loses()
		s.want("the term ends", took, 0)
		if !errors.Is(cause, election.ErrLost) || cause.Error() != "leadership lost: somebody else took it: the lock is held by thief" {
			t.Errorf("cause is %v", cause)
		}
		s.write(func(r *locks.Record) { r.RenewTime = r.RenewTime.Add(time.Second) })
		synctest.Wait()
		if r := s.record(); r.Holder != "thief" {
			t.Errorf("the holder is %q: another's lease was released", r.Holder)
		}
	})
}

func TestS7ANewerTokenEndsTheTermAtOnce(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		s.write(func(r *locks.Record) { r.Details.Token = 1 << 40 })
		took, _ := a.Loses()
		s.want("the term ends", took, 0)
	})
}

func TestS5ATermOfAnotherProcessBySameNameIsNotReleasedNorReclaimed(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		time.Sleep(interval + time.Millisecond)
		twin := s.write(func(r *locks.Record) { r.Details.Token, r.RenewTime = 1<<40, r.RenewTime.Add(time.Second) })
		a.Loses()
		synctest.Wait()
		if now := s.record(); now != twin.Record {
			t.Errorf("the twin's record %+v became %+v", twin.Record, now)
		}
		s.write(func(r *locks.Record) { r.RenewTime = r.RenewTime.Add(time.Second) })
		term, took := a.Leads()
		s.want("a leads", took, lease)
		if term.Cause != status.CauseExpired {
			t.Errorf("the term is %+v", term)
		}
	})
}

func TestS8TokensGrowAcrossDeletionAndForTheSameHolder(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		for range 5 {
			a.Leads()
			if err := a.Resign(s.T.Context()); err != nil {
				t.Fatal(err)
			}
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

func TestS10ATakeoverDelayOnlyDelays(t *testing.T) {
	for _, head := range []time.Duration{-time.Hour, 0, 3 * time.Second} {
		scenario(t, func(s *stage) {
			a := s.start("a")
			a.Leads()
			b := s.start("b", func(c *election.Config) {
				c.TakeoverDelay = func(o election.Takeover) time.Duration {
					if o.Previous != "a" || o.PreviousZone != "z-a" || o.Candidate.Identity != "b" {
						t.Errorf("takeover delay is asked for %+v", o)
					}
					return head
				}
			})
			a.link.Set(cut)
			_, took := b.Leads()
			s.want("b leads", took, lease+max(0, head))
		})
	}
}

func TestS11ATakeoverReplacesAllThatIsSaidAboutTheHolder(t *testing.T) {
	scenario(t, func(s *stage) {
		s.write(func(r *locks.Record) {
			r.Details = locks.Details{Holder: "x", Token: 7, Released: 7, Zone: "old", Node: "old", Pod: locks.Pod{Name: "old", UID: "old"}, Nonce: "old", Trace: "old"}
		})
		s.start("a").Leads()
		d := s.record().Details
		if d.Nonce == "" || d.Nonce == "old" {
			t.Errorf("the nonce is %q", d.Nonce)
		}
		if d.Nonce = ""; d != (locks.Details{Holder: "a", Zone: "z-a"}) {
			t.Errorf("details are %+v", d)
		}
	})
}

func TestS11DetailsOfAnotherHolderAreNotBelieved(t *testing.T) {
	scenario(t, func(s *stage) {
		s.write(func(r *locks.Record) {
			r.Holder, r.LeaseDuration = "client-go", lease
			r.Details = locks.Details{Holder: "x", Zone: "old"}
		})
		if got := s.start("a").Status(); got.Holder != "client-go" || got.HolderZone != "" {
			t.Errorf("status is %+v", got)
		}
	})
}

func TestGarbageInTheRecordNeverMakesTwoLeaders(t *testing.T) {
	future := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		record locks.Record
		wait   time.Duration
	}{
		"no holder":              {locks.Record{LeaseDuration: lease}, 0},
		"hours":                  {locks.Record{Holder: "x", LeaseDuration: 3 * time.Hour}, 3 * time.Hour},
		"from the future":        {locks.Record{Holder: "x", LeaseDuration: lease, AcquireTime: future, RenewTime: future}, lease},
		"from before time":       {locks.Record{Holder: "x", LeaseDuration: time.Second}, time.Second},
		"unreleased, of another": {locks.Record{LeaseDuration: time.Second, Details: locks.Details{Holder: "y", Token: 3}}, lease},
		"released, no token":     {locks.Record{LeaseDuration: time.Second, Details: locks.Details{Holder: "y"}}, lease},
		"released, other token":  {locks.Record{LeaseDuration: time.Second, Details: locks.Details{Holder: "y", Token: 3, Released: 2}}, lease},
		"released":               {locks.Record{LeaseDuration: time.Second, Details: locks.Details{Holder: "y", Token: 3, Released: 3}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(s *stage) {
				s.write(func(r *locks.Record) { *r = test.record })
				a := s.start("a")
				select {
				case <-a.Leading:
					s.want("a leads", 0, test.wait)
				case <-time.After(4 * time.Hour):
					t.Fatal("a never leads")
				case <-func() chan struct{} {
					c := make(chan struct{})
					if test.wait > 0 {
						time.AfterFunc(test.wait-1, func() { close(c) })
					}
					return c
				}():
					a.Idles()
					_, took := a.Leads()
					s.want("then a leads", took, 1)
				}
			})
		})
	}
}

func TestAHistoryThatWentBackIsBelievedAfterAFullWait(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		b := s.start("b")
		time.Sleep(time.Minute)
		s.lock.Restore(locks.Record{Holder: "old", LeaseDuration: lease})
		_, cause := a.Loses()
		if !errors.Is(cause, election.ErrLost) {
			t.Errorf("a's term ended with %v", cause)
		}
		select {
		case <-a.Leading:
		case <-b.Leading:
		case <-time.After(3 * lease):
			t.Error("nobody leads after the restored lease has run out")
		}
		s.Restored = true // and with it the promise about tokens
	})
}
