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

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

// guarded is a guardian that does what the test tells it to.
type guarded struct {
	campaign chan locks.Permission // passed on by Attend
	leave    chan error            // returned by Attend
	work     chan locks.Permission // passed on by Adopt
	fail     chan error            // returned by Adopt
	adopted  chan context.Context  // gets the context of each Adopt
	finish   time.Duration         // how long Adopt takes after its context
}

// guard gives a candidate's lock a guardian.
func guard(c *election.Config) *guarded {
	g := &guarded{
		campaign: make(chan locks.Permission, 1), leave: make(chan error), work: make(chan locks.Permission), fail: make(chan error),
		adopted: make(chan context.Context, 100),
	}
	altering(func(l *altered) { l.can.Guardian = g })(c)
	return g
}

// does passes permissions on until it is told to return, or its context ends.
func does(ctx context.Context, pass <-chan locks.Permission, end <-chan error, clear func(locks.Permission)) error {
	for {
		select {
		case p := <-pass:
			clear(p)
		case err := <-end:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (g *guarded) Attend(ctx context.Context, clear func(locks.Permission)) error {
	return does(ctx, g.campaign, g.leave, clear)
}

func (g *guarded) Adopt(ctx context.Context, _ locks.Term, clear func(locks.Permission)) error {
	g.adopted <- ctx
	err := does(ctx, g.work, g.fail, clear)
	if ctx.Err() != nil {
		time.Sleep(g.finish)
	}
	return err
}

var granted = locks.Permission{Granted: true}

// guardedCandidate is a candidate that may campaign and, if leads is set, lead.
func (s *stage) guardedCandidate(identity string, leads bool) (*seat, *guarded) {
	s.T.Helper()
	var g *guarded
	c := s.start(identity, func(c *election.Config) { g = guard(c) })
	g.campaign <- granted
	if leads {
		g.work <- granted
		c.Leads()
	}
	synctest.Wait()
	return c, g
}

func TestACandidateDoesNotCampaignBeforeItsGuardianAllowsIt(t *testing.T) {
	scenario(t, func(s *stage) {
		var g *guarded
		c := s.start("a", func(c *election.Config) { g = guard(c) })
		g.campaign <- locks.Permission{Why: "a reason"}
		time.Sleep(time.Hour)
		c.Idles()
		if n := c.link.Calls("write"); n != 0 {
			t.Errorf("%d writes", n)
		}
		if got := c.Status(); got.Waiting != "a reason" || got.State != status.StateFollower {
			t.Errorf("the status is %+v", got)
		}
		g.campaign <- granted
		g.work <- granted
		s.leads(c, 0)
	})
}

func TestWorkBeginsOnlyWhenTheGuardianAllowsItAndTheLeaseIsKeptMeanwhile(t *testing.T) {
	scenario(t, func(s *stage) {
		a, g := s.guardedCandidate("a", false)
		b := s.start("b")
		g.work <- locks.Permission{Why: "a legacy pod"}
		time.Sleep(time.Hour)
		a.Idles()
		b.Idles()
		if got := a.Status(); got.State != status.StateAdopting || got.Waiting != "a legacy pod" || got.Holder != "a" {
			t.Errorf("the status is %+v", got)
		}
		g.work <- granted
		s.leads(a, 0)
		if got := a.Status(); got.State != status.StateLeader || got.Waiting != "" {
			t.Errorf("the status is %+v", got)
		}
	})
}

// TestATermThatTheGuardianLosesEndsAtOnce, even if a function of the program keeps the elector.
func TestATermThatTheGuardianLosesEndsAtOnce(t *testing.T) {
	scenario(t, func(s *stage) {
		var g *guarded
		hang := make(chan struct{})
		var hangs atomic.Bool
		a := s.start("a", func(c *election.Config) {
			g = guard(c)
			c.ProcessLock = marksThatHang(&hangs, hang)
		})
		g.campaign <- granted
		g.work <- granted
		a.Leads()
		hangs.Store(true)
		time.Sleep(3 * time.Second) // a renewal was due
		taken := errors.New("taken by a legacy pod")
		g.fail <- taken
		s.loses(a, 0, taken, election.ErrLost)
		hangs.Store(false)
		close(hang)
		synctest.Wait()
		if got := a.Status(); got.State == status.StateLeader {
			t.Errorf("the status is %+v", got)
		}
		select {
		case g.work <- granted:
			a.Leads()
		case <-time.After(time.Hour):
			t.Error("no other term begins")
		}
	})
}

// marksThatHang returns a Config.ProcessLock, which each renewal calls. Once now is set, it
// blocks the elector's goroutine.
func marksThatHang(now *atomic.Bool, until <-chan struct{}) func() string {
	return func() string {
		if now.Load() {
			<-until
		}
		return ""
	}
}

// TestATermThatTheGuardianLosesAsItStopsIsTrustedNoMore: a legacy pod may lead, though the work has time to stop.
func TestATermThatTheGuardianLosesAsItStopsIsTrustedNoMore(t *testing.T) {
	scenario(t, func(s *stage) {
		a, g := s.guardedCandidate("a", true)
		adopted := <-g.adopted
		a.SetStopTime(20 * time.Second)
		g.campaign <- locks.Permission{Why: "rolled back"}
		a.Loses()
		synctest.Wait()
		if adopted.Err() != nil {
			s.T.Fatal("the guardian was told to go while the work still stops")
		}
		term := a.Term()
		if term.TrustedFor() <= 0 {
			t.Fatal("a term that stops in good order is trusted, else this shows nothing")
		}
		g.fail <- errors.New("taken by a legacy pod")
		synctest.Wait()
		if left := term.TrustedFor(); left > 0 {
			t.Errorf("it is trusted for %v", left)
		}
		time.Sleep(21 * time.Second)
		synctest.Wait()
		s.holds("as nothing is released", "a")
	})
}

func TestAWithdrawnClearanceEndsTheTermInGoodOrder(t *testing.T) {
	scenario(t, func(s *stage) {
		a, g := s.guardedCandidate("a", true)
		a.SetStopTime(20 * time.Second) // longer than any trust
		g.campaign <- locks.Permission{Why: "rolled back"}
		s.loses(a, 0, election.ErrWithdrawn)
		time.Sleep(21 * time.Second)
		synctest.Wait()
		s.holds("then", "")
		time.Sleep(time.Hour)
		a.Idles()
	})
}

// TestALockThatIsWonAfterTheClearanceWasWithdrawnIsGivenBack: the write was on its way.
func TestALockThatIsWonAfterTheClearanceWasWithdrawnIsGivenBack(t *testing.T) {
	scenario(t, func(s *stage) {
		var g *guarded
		a := s.start("a", func(c *election.Config) { g = guard(c) })
		a.link.Set(lockstest.Fault{Delay: 500 * time.Millisecond})
		g.campaign <- granted
		time.Sleep(700 * time.Millisecond)
		s.holds("else the write has not landed:", "a")
		g.campaign <- locks.Permission{Why: "rolled back"}
		time.Sleep(interval) // no renewal has been answered, which would say so, too
		a.Idles()
		s.holds("then", "")
		if got := a.Status(); got.State != status.StateFollower || got.Waiting != "rolled back" {
			t.Errorf("the status is %+v", got)
		}
	})
}

func TestTheLockIsReleasedOnlyAfterTheGuardianHasFinished(t *testing.T) {
	scenario(t, func(s *stage) {
		a, g := s.guardedCandidate("a", true)
		adopted := <-g.adopted
		a.SetStopTime(5 * time.Second)
		g.finish = 20 * time.Second
		a.Stop()
		a.Loses()
		time.Sleep(4 * time.Second)
		if adopted.Err() != nil {
			t.Error("the guardian was told to go before the work had returned")
		}
		time.Sleep(2 * time.Second)
		if !errors.Is(context.Cause(adopted), election.ErrStopped) {
			t.Errorf("the guardian's cause is %v", context.Cause(adopted))
		}
		time.Sleep(18 * time.Second)
		s.holds("while the guardian is at work", "a")
		time.Sleep(2 * time.Second)
		s.holds("when it has finished", "")
	})
}

// TestAGuardianThatWasLateIsNoOverrunAfterItsTerm: else a candidate that is well would fail its liveness probe.
func TestAGuardianThatWasLateIsNoOverrunAfterItsTerm(t *testing.T) {
	scenario(t, func(s *stage) {
		a, g := s.guardedCandidate("a", false)
		<-g.adopted // the work has not begun
		g.finish = 2 * timing.DefaultStopTimeout
		g.campaign <- locks.Permission{Why: "rolled back"}
		time.Sleep(3 * timing.DefaultStopTimeout)
		if got := a.Status(); got.Overrun || got.State != status.StateFollower {
			t.Errorf("the status is %+v", got)
		}
	})
}

func TestAGuardianThatLeavesEndsTheTermAndRun(t *testing.T) {
	scenario(t, func(s *stage) {
		gone := errors.New("this pod is gone")
		a, g := s.guardedCandidate("a", true)
		g.leave <- gone
		s.loses(a, 0, gone)
		err := a.Wait()
		if !errors.Is(err, gone) {
			t.Errorf("Run returned %v", err)
		}

		b, g := s.guardedCandidate("b", false)
		g.leave <- nil
		if err := b.Wait(); err == nil {
			t.Error("Run returned nil without its guardian")
		}
	})
}

// TestResignReturnsWhenRunDoes, also of a term whose work may not begin yet.
func TestACandidateWhoseGuardianLeavesKeepsNoLockThatItLost(t *testing.T) {
	scenario(t, func(s *stage) {
		a, g := s.guardedCandidate("a", true)
		a.SetStopTime(2 * time.Second)
		a.link.Set(cut)
		a.Loses()
		a.link.Set(whole)
		g.leave <- nil
		if err := a.Wait(); err == nil {
			t.Error("Run returned without an error")
		}
		s.holds("after Run", "")
	})
}

func TestResignReturnsWhenRunDoes(t *testing.T) {
	scenario(t, func(s *stage) {
		a, _ := s.guardedCandidate("a", false)
		a.link.Set(lockstest.Fault{Delay: interval / 4})
		a.Stop()
		synctest.Wait() // the release is on its way, and nothing comes after it
		ctx, cancel := context.WithTimeout(s.T.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		if err := a.Resign(ctx); !errors.Is(err, election.ErrNotLeading) {
			t.Errorf("got %v, want ErrNotLeading", err)
		}
		s.want("Resign returns", time.Since(start), interval/2)
	})
}

const barred = "this record is for others"

// bars gives a candidate a lock whose record is barred once it is set.
func bars(set *atomic.Bool) func(*election.Config) {
	return altering(func(l *altered) {
		l.shows = func(s *locks.Snapshot) {
			if set.Load() {
				s.Barred = barred
			}
		}
	})
}

func TestNobodyCampaignsForARecordThatIsBarred(t *testing.T) {
	scenario(t, func(s *stage) {
		s.write(held(lease))
		var set atomic.Bool
		set.Store(true)
		a := s.start("a", bars(&set))
		time.Sleep(3 * lease)
		a.Idles()
		if got := a.Status().Waiting; got != barred {
			t.Errorf("it waits for %q", got)
		}
		set.Store(false)
		s.write(emptied)
		s.write(func(r *locks.Record) { r.Holder, r.RenewTime = "x", time.Now() })
		s.leads(a, lease)
		if got := a.Status().Waiting; got != "" {
			t.Errorf("it leads, and waits for %q", got)
		}
	})
}

// TestALeaderStopsInGoodOrderWhenItsRecordIsBarred, also if only the answer to its renewal says so.
func TestALeaderStopsInGoodOrderWhenItsRecordIsBarred(t *testing.T) {
	for _, mute := range []bool{false, true} {
		scenario(t, func(s *stage) {
			var set atomic.Bool
			a := s.leader("a", bars(&set))
			set.Store(true)
			if a.link.Set(lockstest.Fault{Mute: mute}); !mute {
				s.write(func(r *locks.Record) { r.Evacuated = "zx" })
			}
			if took, cause := a.Loses(); !errors.Is(cause, election.ErrWithdrawn) || took > interval {
				t.Errorf("the term ended after %v with %v", took, cause)
			}
			time.Sleep(time.Second)
			s.holds("then", "")
			time.Sleep(3 * lease)
			a.Idles()
		})
	}
}

// TestABarredCandidateKeepsNoLockThatItLost: it would not come back for it.
func TestABarredCandidateKeepsNoLockThatItLost(t *testing.T) {
	scenario(t, func(s *stage) {
		var set atomic.Bool
		a := s.leader("a", bars(&set))
		time.Sleep(interval + time.Second)
		a.SetStopTime(interval)
		set.Store(true)
		s.write(emptied)
		synctest.Wait()
		s.holds("while the work stops", "a")
		a.Loses()
		time.Sleep(2 * interval)
		s.holds("then", "")
	})
}
