// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package twin

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/electiontest"
	"github.com/zonelect/zonelect/election/status"
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

// twinStage has both locks, candidates and legacy electors, in virtual time.
type twinStage struct {
	*pair
	history electiontest.History
	stop    []func()
}

// twinSeat is one candidate.
type twinSeat struct {
	*election.Elector
	governing, legacy *lockstest.Faulty
	readOnly          atomic.Bool // the governing lock may not be written
	cancel            func()
	leading           chan election.Term
	ended             chan error
}

// guardedLock is a lock that a seat may sometimes not write.
type guardedLock struct {
	locks.Lock
	seat *twinSeat
}

func (g guardedLock) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	if g.seat.readOnly.Load() {
		return locks.Snapshot{}, locks.ErrForbidden
	}
	return g.Lock.Write(ctx, base, r)
}

func twinScenario(t *testing.T, f func(s *twinStage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &twinStage{pair: newPair(t)}
		f(s)
		for _, stop := range s.stop {
			stop()
		}
		if err := s.history.Check(); err != nil {
			t.Error(err)
		}
	})
}

// start makes a candidate.
func (s *twinStage) start(identity string) *twinSeat {
	s.t.Helper()
	_, governing, legacy := s.twin()
	c := &twinSeat{governing: governing, legacy: legacy, leading: make(chan election.Term, 100), ended: make(chan error, 100)}
	twin := twinOf(guardedLock{governing, c}, legacy)
	var err error
	if c.Elector, err = election.New(election.Config{Lock: twin, Candidate: locks.Candidate{Identity: identity}, TakeoverDelay: atOnce}); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Run(ctx, s.history.Lead(func(ctx context.Context, term election.Term) error {
			c.leading <- term
			<-ctx.Done()
			c.ended <- context.Cause(ctx)
			return nil
		}))
	}()
	c.cancel = func() { cancel(); <-done }
	s.stop = append(s.stop, func() { c.fail(lockstest.Fault{}, lockstest.Fault{}); c.cancel() })
	synctest.Wait()
	return c
}

func (c *twinSeat) fail(governing, legacy lockstest.Fault) {
	c.governing.Set(governing)
	c.legacy.Set(legacy)
}

// leads waits for c's next term, and returns it and how long that took.
func (s *twinStage) leads(c *twinSeat) (election.Term, time.Duration) {
	s.t.Helper()
	start := time.Now()
	select {
	case term := <-c.leading:
		return term, time.Since(start)
	case <-time.After(time.Hour):
		s.t.Fatal("no term within an hour")
		return election.Term{}, 0
	}
}

// loses waits for the end of c's term and returns how long that took and its cause.
func (s *twinStage) loses(c *twinSeat) (time.Duration, error) {
	s.t.Helper()
	start := time.Now()
	select {
	case err := <-c.ended:
		return time.Since(start), err
	case <-time.After(time.Hour):
		s.t.Fatal("no end of the term within an hour")
		return 0, nil
	}
}

// leadsOn checks that nothing has ended c's term.
func (s *twinStage) leadsOn(c *twinSeat) {
	s.t.Helper()
	select {
	case err := <-c.ended:
		s.t.Errorf("the term ended: %v", err)
	default:
	}
}

// holders returns the holders of both locks.
func (s *twinStage) holders() string {
	s.t.Helper()
	return s.read(s.legacy).Record.Holder + ", " + s.read(s.governing).Record.Holder
}

// old starts an elector of the old kind. stop ends it without a release.
func (s *twinStage) old(identity string, multi bool) (stop func()) {
	locks := []locks.Lock{s.legacy}
	if multi {
		locks = append(locks, s.governing)
	}
	stop = startOld(s.t, &s.history, rand.New(rand.NewPCG(uint64(len(s.stop)), 3)), identity, locks...)
	s.stop = append(s.stop, stop)
	return stop
}

// oldElector campaigns as client-go did up to 0.26: on the legacy lock alone, or on that
// and a second one as a MultiLock. It judges expiry by its own LeaseDuration, and sees a
// renewal only if the whole seconds differ.
type oldElector struct {
	history  *electiontest.History
	identity string
	locks    []locks.Lock

	seen   [2]locks.Record
	seenAt time.Time
	base   [2]locks.Version
	holder string // of the record that was read or written last
}

// startOld starts an elector of the old kind. stop ends it without a release.
func startOld(t *testing.T, history *electiontest.History, dice *rand.Rand, identity string, locks ...locks.Lock) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			e := &oldElector{history: history, identity: identity, locks: locks}
			for ctx.Err() == nil && !e.attempt() {
				nap(ctx, twinInterval+time.Duration(dice.Int64N(int64(time.Second))))
			}
			if ctx.Err() == nil {
				e.lead(ctx)
			}
		}
	}()
	return func() { cancel(); <-done }
}

func nap(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// lead leads until no attempt has succeeded for a RenewDeadline, or ctx ends.
func (e *oldElector) lead(ctx context.Context) {
	work := e.history.Lead(func(context.Context, election.Term) error {
		for last := time.Now(); time.Since(last) < twinDeadline && ctx.Err() == nil; {
			nap(ctx, twinInterval)
			if ctx.Err() == nil && e.attempt() {
				last = time.Now()
			}
		}
		return nil
	})
	_ = work(ctx, election.Term{Holder: e.identity, Token: e.base[0].Number})
}

// attempt reads the lock, and takes or renews it unless another holds it.
func (e *oldElector) attempt() bool {
	var now [2]locks.Record
	exists := false
	for i, lock := range e.locks {
		s, err := lock.Read(context.Background())
		if err != nil {
			return false
		}
		now[i], e.base[i] = inSeconds(s.Record), s.Version
		exists = exists || s.Version.Exists()
	}
	if now != e.seen {
		e.seen, e.seenAt, e.holder = now, time.Now(), now[0].Holder
		if len(e.locks) > 1 && e.base[1].Exists() && now[0].Holder != now[1].Holder {
			e.holder = UnknownHolder
		}
	}
	if exists && e.holder != "" && e.holder != e.identity && time.Since(e.seenAt) < twinLease {
		return false
	}
	at := time.Now().Truncate(time.Second)
	for i, lock := range e.locks {
		r, _ := lock.Read(context.Background())
		record := r.Record // the details are left in place
		record.Holder, record.LeaseDuration, record.AcquireTime, record.RenewTime = e.identity, twinLease, at, at
		s, err := lock.Write(context.Background(), e.base[i], record)
		if err != nil {
			return false
		}
		e.base[i] = s.Version
	}
	e.holder, e.seenAt = e.identity, time.Now()
	return true
}

func inSeconds(r locks.Record) locks.Record {
	r.Details = locks.Details{}
	r.AcquireTime, r.RenewTime = time.Unix(r.AcquireTime.Unix(), 0), time.Unix(r.RenewTime.Unix(), 0)
	return r
}

func TestACandidateHoldsBothLocksAndGivesBothUp(t *testing.T) {
	twinScenario(t, func(s *twinStage) {
		a := s.start("a")
		s.leads(a)
		b := s.start("b")
		time.Sleep(time.Minute)
		if got := s.holders(); got != "a, a" {
			t.Errorf("held by %q", got)
		}
		a.cancel()
		if term, took := s.leads(b); took != 0 || term.Cause != status.CauseReleased {
			t.Errorf("b leads after %v because it is %v", took, term.Cause)
		}
		time.Sleep(time.Minute)
		if got := s.holders(); got != "b, b" {
			t.Errorf("held by %q", got)
		}
	})
}

func TestACandidateWaitsForALegacyLeadersLastRenewalToExpire(t *testing.T) {
	for name, multi := range map[string]bool{"alone": false, "MultiLock": true} {
		t.Run(name, func(t *testing.T) {
			twinScenario(t, func(s *twinStage) {
				stop := s.old("L", multi)
				time.Sleep(time.Minute)
				a := s.start("a")
				time.Sleep(time.Minute + twinInterval/4) // not at the moment of a renewal
				if len(a.leading) > 0 {
					t.Fatal("the candidate leads beside the legacy leader")
				}
				last := s.read(s.legacy).Record.RenewTime
				stop()
				if term, _ := s.leads(a); time.Since(last) > twinLease+time.Second || term.Cause != status.CauseExpired || term.Previous != "L" {
					t.Errorf("%v after the last renewal came %+v", time.Since(last), term)
				}
			})
		})
	}
}

func TestLegacyElectorsLeaveACandidatesLockAlone(t *testing.T) {
	for name, multi := range map[string]bool{"alone": false, "MultiLock": true} {
		t.Run(name, func(t *testing.T) {
			twinScenario(t, func(s *twinStage) {
				a := s.start("a")
				s.leads(a)
				s.old("L", multi)
				time.Sleep(5 * time.Minute)
				s.leadsOn(a)
				a.fail(twinCut, twinCut)
				start := time.Now()
				for !strings.HasPrefix(s.holders(), "L") {
					time.Sleep(time.Second)
				}
				if took := time.Since(start); took < twinLease-twinInterval || took > twinLease+2*twinInterval {
					t.Errorf("the legacy elector took a dead candidate's lock after %v", took)
				}
			})
		})
	}
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
				s.leads(a)
				time.Sleep(twinInterval / 2)
				s.put(side(s.pair), theirs("L", 1))
				took, err := s.loses(a)
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
				s.leads(a)
				time.Sleep(3 * twinInterval / 2)
				harm(s)
				synctest.Wait()
				if got := s.holders(); got != "a, a" {
					t.Errorf("right after that it is held by %q", got)
				}
				time.Sleep(time.Minute)
				s.leadsOn(a)
			})
		})
	}
}

// TestHalfRenewalsNeitherKeepATermNorBlockOthers: a holder that reaches only the legacy
// object must stop, and another must take over.
func TestHalfRenewalsNeitherKeepATermNorBlockOthers(t *testing.T) {
	twinScenario(t, func(s *twinStage) {
		a := s.start("a")
		s.leads(a)
		b := s.start("b")
		time.Sleep(time.Minute)
		a.readOnly.Store(true)
		if took, _ := s.loses(a); took > twinDeadline || took < twinDeadline-twinInterval {
			t.Errorf("the term ended after %v", took)
		}
		if _, took := s.leads(b); took > twinLease-twinDeadline+2*twinInterval {
			t.Errorf("the next led %v after that", took)
		}
	})
}

// TestWhatIsLeftOfAnOwnTermIsNotReclaimedWhereALegacyElectorMayHaveCome unseen: a
// candidate that was cut off cannot know why the other half is gone. It is back before or
// after the legacy elector's next renewal.
func TestWhatIsLeftOfAnOwnTermIsNotReclaimedWhereALegacyElectorMayHaveCome(t *testing.T) {
	for at := range 8 {
		twinScenario(t, func(s *twinStage) {
			a := s.start("a")
			s.leads(a)
			a.fail(twinCut, twinCut)
			s.old("L", false)
			time.Sleep(time.Minute)
			refused := lockstest.Fault{Err: errors.New("503")} // so that it asks often
			a.fail(refused, refused)
			time.Sleep(time.Minute + time.Duration(at)*twinInterval/8)
			if got := s.holders(); got != "L, a" {
				t.Errorf("held by %q", got)
			}
			s.legacy.Delete()
			a.fail(lockstest.Fault{}, lockstest.Fault{})
			time.Sleep(time.Minute)
			if len(a.leading) > 0 {
				t.Error("the candidate leads beside the legacy elector")
			}
		})
	}
}

// halfBlind has a candidate lead, and another follow whose view of one record stands still from
// now on, as a server's cache may. Its watch of the other shows each renewal.
func halfBlind(t *testing.T, blind func(*twinSeat), f func(s *twinStage, a, b *twinSeat)) {
	t.Helper()
	twinScenario(t, func(s *twinStage) {
		a := s.start("a")
		s.leads(a)
		b := s.start("b")
		time.Sleep(twinLease)
		blind(b)
		late := lockstest.Fault{Delay: twinInterval / 8, Mute: true} // renewals land after b's lease is over, not at that instant
		a.fail(late, late)
		f(s, a, b)
	})
}

func TestS3WhoSeesRenewalsOnOneOfBothRecordsTakesNeither(t *testing.T) {
	mute, blind := lockstest.Fault{Mute: true}, lockstest.Fault{Mute: true, LoseReads: true}
	for name, fault := range map[string]func(*twinSeat){
		"the Lease's watch is silent":                         func(b *twinSeat) { b.governing.Set(mute) },
		"the legacy object's watch is silent":                 func(b *twinSeat) { b.legacy.Set(mute) },
		"the Lease's watch is silent, nor are reads":          func(b *twinSeat) { b.governing.Set(blind) },
		"the legacy object's watch is silent, nor is it read": func(b *twinSeat) { b.legacy.Set(blind) },
	} {
		t.Run(name, func(t *testing.T) {
			halfBlind(t, fault, func(s *twinStage, a, _ *twinSeat) {
				time.Sleep(10 * twinLease)
				s.leadsOn(a)
				if got := s.holders(); got != "a, a" {
					t.Errorf("the holders are %s", got)
				}
			})
		})
	}
}

// countTerms runs that many schedules. Each passes its history to count at its end.
// countTerms returns the number of all terms, and of those of legacy electors.
func countTerms(t *testing.T, schedules int, run func(t *testing.T, seed int, count func(*electiontest.History))) (terms, old int) {
	t.Helper()
	var mu sync.Mutex
	count := func(h *electiontest.History) {
		mu.Lock()
		defer mu.Unlock()
		for _, term := range h.Terms() {
			terms++
			if strings.HasPrefix(term.Holder, "L") {
				old++
			}
		}
	}
	for seed := range schedules {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { run(t, seed, count) })
	}
	t.Logf("%d terms in %d schedules, %d of legacy electors", terms, schedules, old)
	return terms, old
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
				<-b.leading
				if took := time.Since(from) - halfWriteHold; took != tc.wait { // it looks like half a write of ours
					t.Errorf("b leads %v after it heard, want %v", took, tc.wait)
				}
			})
		})
	}
}

// atOnce is a takeover delay of zero, without the spread of candidates that do not know each
// other.
func atOnce(election.Takeover) time.Duration { return 0 }
