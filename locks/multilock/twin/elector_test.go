// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package twin

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/electiontest"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
	"github.com/zonelect/zonelect/locks/memory"
)

const (
	twinLease    = timing.DefaultLeaseDuration
	twinDeadline = timing.DefaultRenewDeadline
	twinInterval = timing.DefaultRenewInterval
)

// twinStage has both locks and candidates, in virtual time.
type twinStage struct {
	*electiontest.Stage
	*pair
}

// twinSeat is one candidate.
type twinSeat struct {
	*electiontest.Seat
	governing, legacy *lockstest.Faulty
}

func twinScenario(t *testing.T, f func(s *twinStage)) {
	t.Helper()
	electiontest.Scenario(t, func(on *electiontest.Stage) { f(&twinStage{on, newPair(on.T)}) })
}

// start makes a candidate.
func (s *twinStage) start(identity string) *twinSeat {
	s.t.Helper()
	twin, governing, legacy := s.twin()
	c := &twinSeat{governing: governing, legacy: legacy}
	atOnce := func(election.Takeover) time.Duration { return 0 }
	c.Seat = s.Seat(election.Config{Lock: twin, Candidate: locks.Candidate{Identity: identity}, TakeoverDelay: atOnce})
	c.Start()
	s.t.Cleanup(func() { c.fail(lockstest.Fault{}, lockstest.Fault{}) })
	return c
}

func (c *twinSeat) fail(governing, legacy lockstest.Fault) {
	c.governing.Set(governing)
	c.legacy.Set(legacy)
}

// holders returns the holders of both locks.
func (s *twinStage) holders() string {
	s.t.Helper()
	return s.read(s.legacy).Record.Holder + ", " + s.read(s.governing).Record.Holder
}

var twinCut = lockstest.Fault{Hang: true}

// TestLosingEitherSideEndsTheTermAtOnce, and the cause names the new holder.
func TestLosingEitherSideEndsTheTermAtOnce(t *testing.T) {
	for name, side := range map[string]func(*pair) *memory.Lock{
		"legacy: L, governing: a": func(p *pair) *memory.Lock { return p.legacy },
		"legacy: a, governing: L": func(p *pair) *memory.Lock { return p.governing },
	} {
		t.Run(name, func(t *testing.T) {
			twinScenario(t, func(s *twinStage) {
				a := s.start("a")
				a.Leads()
				time.Sleep(twinInterval / 2)
				s.put(side(s.pair), theirs("L", 1))
				took, err := a.Loses()
				if took != 0 || !errors.Is(err, election.ErrLost) || !strings.Contains(err.Error(), name) {
					t.Errorf("lost after %v: %v", took, err)
				}
			})
		})
	}
}

// TestALeaderMendsWhatIsGoneAtOnce: an elector that does not know the other side would
// take the missing one.
func TestALeaderMendsWhatIsGoneAtOnce(t *testing.T) {
	for name, harm := range map[string]func(s *twinStage){
		"the legacy object is deleted": func(s *twinStage) { s.legacy.Delete() },
		"the Lease is deleted":         func(s *twinStage) { s.governing.Delete() },
		"the legacy record is cleared": func(s *twinStage) { s.put(s.legacy, cleared(theirs("", 1))) },
		"the record is removed":        func(s *twinStage) { s.put(s.legacy, locks.Record{}) },
		"the Lease is cleared":         func(s *twinStage) { s.put(s.governing, cleared(theirs("", 1))) },
	} {
		t.Run(name, func(t *testing.T) {
			twinScenario(t, func(s *twinStage) {
				a := s.start("a")
				a.Leads()
				time.Sleep(3 * twinInterval / 2)
				harm(s)
				synctest.Wait()
				if got := s.holders(); got != "a, a" {
					t.Errorf("right after that it is held by %q", got)
				}
				time.Sleep(time.Minute)
				a.Stays()
			})
		})
	}
}

// TestHalfRenewalsNeitherKeepATermNorBlockOthers: a holder that reaches only the legacy
// object must stop, and another must take over.
func TestHalfRenewalsNeitherKeepATermNorBlockOthers(t *testing.T) {
	twinScenario(t, func(s *twinStage) {
		a := s.start("a")
		a.Leads()
		b := s.start("b")
		time.Sleep(time.Minute)
		a.governing.Set(lockstest.Fault{LoseWrites: true})
		if took, _ := a.Loses(); took > twinDeadline || took < twinDeadline-twinInterval {
			t.Errorf("the term ended after %v", took)
		}
		if _, took := b.Leads(); took > twinLease-twinDeadline+2*twinInterval {
			t.Errorf("the next led %v after that", took)
		}
	})
}

// TestWhatIsLeftOfAnOwnTermIsNotReclaimedWhereALegacyElectorMayHaveCome unseen: a candidate that was cut off cannot
// know why the other half is gone. It is back before or after the legacy elector's next renewal.
func TestWhatIsLeftOfAnOwnTermIsNotReclaimedWhereALegacyElectorMayHaveCome(t *testing.T) {
	for at := range 4 {
		twinScenario(t, func(s *twinStage) {
			a := s.start("a")
			a.Leads()
			a.fail(twinCut, twinCut)
			time.Sleep(twinLease)
			second := 0
			renews := func(d time.Duration) { // as the legacy elector
				for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(twinInterval) {
					second += 2
					s.put(s.legacy, theirs("L", second))
				}
			}
			renews(time.Minute)
			refused := lockstest.Fault{Err: errors.New("503")} // so that it asks often
			a.fail(refused, refused)
			renews(time.Minute)
			s.legacy.Delete()
			time.Sleep(time.Duration(at) * twinInterval / 4)
			a.fail(lockstest.Fault{}, lockstest.Fault{})
			time.Sleep(twinInterval - time.Duration(at)*twinInterval/4)
			renews(time.Minute)
			a.Idles() // else it would lead beside the legacy elector
		})
	}
}

// TestS3WhoSeesRenewalsOnOneOfBothRecordsTakesNeither: its view of the other stands still, as a server's
// cache may.
func TestS3WhoSeesRenewalsOnOneOfBothRecordsTakesNeither(t *testing.T) {
	mute, blind := lockstest.Fault{Mute: true}, lockstest.Fault{Mute: true, LoseReads: true}
	for name, fault := range map[string]func(*twinSeat){
		"the Lease's watch is silent":                         func(b *twinSeat) { b.governing.Set(mute) },
		"the legacy object's watch is silent":                 func(b *twinSeat) { b.legacy.Set(mute) },
		"the Lease's watch is silent, nor are reads":          func(b *twinSeat) { b.governing.Set(blind) },
		"the legacy object's watch is silent, nor is it read": func(b *twinSeat) { b.legacy.Set(blind) },
	} {
		t.Run(name, func(t *testing.T) {
			twinScenario(t, func(s *twinStage) {
				a := s.start("a")
				a.Leads()
				b := s.start("b")
				time.Sleep(twinLease)
				fault(b)
				late := lockstest.Fault{Delay: twinInterval / 8, Mute: true} // renewals land after b's lease is over, not at that instant
				a.fail(late, late)
				time.Sleep(10 * twinLease)
				a.Stays()
				if got := s.holders(); got != "a, a" {
					t.Errorf("the holders are %s", got)
				}
			})
		})
	}
}

// TestALegacyRecordThatAHandEmptiedIsNotGivenUp: its elector goes on leading. The Lease
// beside it has been free for long, which does not mean that the elector released its
// record.
func TestALegacyRecordThatAHandEmptiedIsNotGivenUp(t *testing.T) {
	for name, tc := range map[string]struct {
		renewed time.Duration
		wait    time.Duration
	}{
		"a hand emptied it":      {0, 2 * twinLease},
		"its elector gave it up": {time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			twinScenario(t, func(s *twinStage) {
				held := theirs("L", 4)
				held.LeaseDuration = 2 * twinLease
				held.Details = given(ours("Z", 2)).Details // which it has left in place
				s.put(s.governing, given(ours("Z", 2)))
				s.put(s.legacy, held)
				b := s.start("b")
				time.Sleep(twinInterval)
				empty := cleared(held)
				empty.RenewTime = held.RenewTime.Add(tc.renewed)
				s.put(s.legacy, empty)
				from := time.Now()
				b.Leads()
				if took := time.Since(from) - halfWriteHold; took != tc.wait { // it looks like half a write of ours
					t.Errorf("b leads %v after it heard, want %v", took, tc.wait)
				}
			})
		})
	}
}
