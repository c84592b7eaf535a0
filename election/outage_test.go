// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

const precedence = 2 * interval

// away has the ways in which an API may be away.
var away = []lockstest.Fault{cut, {Err: errors.New("503")}}

func TestAfterAnOutageTheFormerLeaderLeadsAgain(t *testing.T) {
	for seed := range 20 {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			scenario(t, func(s *stage) { outages(s, rand.New(rand.NewPCG(uint64(seed), 2))) })
		})
	}
}

// outages takes the API away a few times, and checks that the same leader comes back after
// each.
func outages(s *stage, dice *rand.Rand) {
	a := s.start("a")
	all := []*seat{a}
	for i := range 4 {
		all = append(all, s.start(fmt.Sprint("b", i)))
	}
	last, _ := a.Leads()
	for range 5 {
		time.Sleep(time.Minute + time.Duration(dice.Int64N(int64(time.Minute))))
		a.SetStopTime(time.Duration(dice.Int64N(int64(4 * time.Second))))
		long := 12*time.Second + time.Duration(dice.Int64N(int64(48*time.Second)))
		fault := away[dice.IntN(len(away))]
		for _, c := range all {
			c.link.Set(fault)
		}
		time.Sleep(long)
		for _, c := range all {
			c.link.Set(whole)
		}
		term, took := a.Leads()
		if term.Cause != status.CauseReclaimed || term.Token <= last.Token || took > precedence {
			s.T.Errorf("%v after an outage of %v with %+v came %+v", took, long, fault, term)
		}
		last = term
		for len(a.Ended) > 0 {
			<-a.Ended
		}
	}
	for _, c := range all[1:] {
		c.Idles()
	}
}

// TestAnOutageThatEndsWithinTheLeaseMovesNoLeader: the term is lost, and its work has stopped, but nobody else could
// have led.
func TestAnOutageThatEndsWithinTheLeaseMovesNoLeader(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		b := s.start("b")
		time.Sleep(time.Minute)
		for _, c := range []*seat{a, b} {
			c.link.Set(away[1])
		}
		a.Loses()
		time.Sleep(time.Second)
		for _, c := range []*seat{a, b} {
			c.link.Set(whole)
		}
		select {
		case <-a.Leading:
		case term := <-b.Leading:
			t.Errorf("another leads after the outage: %+v", term)
		}
	})
}

func TestAnOutageThatTheLeaderDoesNotComeBackFromDelaysByThePrecedence(t *testing.T) {
	for _, fault := range away {
		led(t, func(s *stage, a *seat) {
			b := s.start("b")
			a.link.Set(cut)
			b.link.Set(fault)
			time.Sleep(40 * time.Second)
			reads := b.link.Calls("read")
			b.link.Set(whole)
			for b.link.Calls("read") == reads {
				time.Sleep(time.Millisecond)
			}
			term, took := b.Leads()
			if took < precedence-time.Millisecond || took > precedence || term.Cause != status.CauseExpired {
				t.Errorf("b leads %v after its first answer, for %s", took, term.Cause)
			}
		})
	}
}

func TestSilenceThatIsShortOrOnlyOfTheWatchIsNoOutage(t *testing.T) {
	type row struct {
		fault lockstest.Fault
		long  time.Duration
	}
	each(t, map[string]row{
		"a dead watch":                   {muted, lease},
		"less than a RenewDeadline":      {cut, deadline / 2},
		"requests that fail and recover": {lockstest.Fault{Err: errors.New("503")}, deadline / 2},
	}, func(s *stage, test row) {
		a := s.leader("a")
		b := s.start("b")
		a.link.Set(cut)
		b.link.Set(test.fault)
		time.AfterFunc(test.long, func() { b.link.Set(whole) })
		s.leads(b, lease)
	})
}

func TestAnOutageDelaysNobodyWhereTheLockWasGivenUp(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		time.Sleep(interval + time.Millisecond)
		b := s.start("b")
		b.link.Set(away[1])
		time.Sleep(time.Minute)
		a.Stop()
		synctest.Wait()
		b.link.Set(whole)
		s.leadsWithin(b, interval*3/2) // its next read
	})
}

func TestABookmarkDoesNotEndAnOutage(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		b := s.start("b", altering(func(l *altered) { // even while all else fails
			l.watch = func(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
				for {
					select {
					case events <- locks.Event{Bookmark: true, Snapshot: locks.Snapshot{Version: from}}:
						time.Sleep(time.Second)
					case <-ctx.Done():
						return nil
					}
				}
			}
		}))
		a.link.Set(cut)
		b.link.Set(away[1])
		time.Sleep(time.Minute)
		b.Idles()
		b.link.Set(whole)
		s.leadsNotBefore(b, precedence)
	})
}

// TestAFormerLeaderThatEndsReleasesTheLockThatItKept, if the API answers before the lease has run out.
func TestAFormerLeaderThatEndsReleasesTheLockThatItKept(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		a.link.Set(cut)
		a.Loses()
		time.Sleep(time.Second)
		a.Stop()
		time.Sleep(time.Second)
		a.link.Set(whole)
		s.ends(a)
		s.holds("then", "")
	})
}

func TestWhoLeavesLateInAnOutageDoesNotWaitForItsEnd(t *testing.T) {
	led(t, func(_ *stage, a *seat) {
		a.link.Set(cut)
		time.Sleep(time.Minute)
		a.Stop()
		start := time.Now()
		if err := a.Wait(); err != nil || time.Since(start) > 0 {
			t.Errorf("Run returned %v after %v", err, time.Since(start))
		}
	})
}
