// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

// guarded is a lock with a guardian that does what the test tells it to.
type guarded struct {
	locks.Lock
	campaign chan locks.Permission // passed on by Attend
	leave    chan error            // returned by Attend
	work     chan locks.Permission // passed on by Adopt
	fail     chan error            // returned by Adopt
	adopted  chan context.Context  // gets the context of each Adopt
	finish   time.Duration         // how long Adopt takes after its context
}

func guard(c *election.Config) *guarded {
	g := &guarded{
		Lock:     c.Lock,
		campaign: make(chan locks.Permission),
		leave:    make(chan error),
		work:     make(chan locks.Permission),
		fail:     make(chan error),
		adopted:  make(chan context.Context, 100),
	}
	c.Lock = g
	return g
}

func (g *guarded) Capabilities() locks.Capabilities { return locks.Capabilities{Guardian: g} }

func (g *guarded) Attend(ctx context.Context, clear func(locks.Permission)) error {
	for {
		select {
		case c := <-g.campaign:
			clear(c)
		case err := <-g.leave:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (g *guarded) Adopt(ctx context.Context, _ locks.Term, clear func(locks.Permission)) error {
	g.adopted <- ctx
	for {
		select {
		case c := <-g.work:
			clear(c)
		case err := <-g.fail:
			return err
		case <-ctx.Done():
			time.Sleep(g.finish)
			return ctx.Err()
		}
	}
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
		_, took := c.Leads()
		s.want("a leads", took, 0)
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
		_, took := a.Leads()
		s.want("a leads", took, 0)
		if got := a.Status(); got.State != status.StateLeader || got.Waiting != "" {
			t.Errorf("the status is %+v", got)
		}
	})
}

func TestATermThatTheGuardianLosesEndsAtOnce(t *testing.T) {
	scenario(t, func(s *stage) {
		a, g := s.guardedCandidate("a", true)
		taken := errors.New("taken by a legacy pod")
		g.fail <- taken
		took, cause := a.Loses()
		s.want("the term ends", took, 0)
		if !errors.Is(cause, taken) || !errors.Is(cause, election.ErrLost) {
			t.Errorf("the cause is %v", cause)
		}
		select {
		case g.work <- granted:
			a.Leads()
		case <-time.After(time.Hour):
			t.Error("it does not campaign any more")
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

// TestATermThatTheGuardianLosesEndsWhateverKeepsTheElector, such as a log that nobody
// reads, or a function of the program that hangs.
func TestATermThatTheGuardianLosesEndsWhateverKeepsTheElector(t *testing.T) {
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
		g.fail <- errors.New("somebody else leads")
		took, cause := a.Loses()
		s.want("the work's end", took, 0)
		if !errors.Is(cause, election.ErrLost) || !strings.Contains(cause.Error(), "somebody else leads") {
			t.Errorf("it ends with %v", cause)
		}
		hangs.Store(false)
		close(hang)
		synctest.Wait()
		if got := a.Status(); got.State == status.StateLeader {
			t.Errorf("the status is %+v", got)
		}
	})
}

// TestWorkDoesNotBeginOnceTheGuardianHasLostTheTerm. The guardian may lose it while a log
// that nobody reads blocks the elector.
func TestWorkDoesNotBeginOnceTheGuardianHasLostTheTerm(t *testing.T) {
	scenario(t, func(s *stage) {
		var g *guarded
		logs, marks := make(chan struct{}), make(chan struct{})
		var hangs atomic.Bool
		a := s.start("a", func(c *election.Config) {
			g = guard(c)
			c.ProcessLock = marksThatHang(&hangs, marks)
		}, logging(func(line string) {
			if strings.Contains(line, `"leading"`) {
				hangs.Store(true)
				<-logs
			}
		}))
		g.campaign <- granted
		g.work <- granted
		time.Sleep(3 * time.Second) // a renewal is due
		g.fail <- errors.New("somebody else leads")
		synctest.Wait()
		defer close(marks)
		close(logs) // it lets the work begin, and hangs again
		a.Idles()
	})
}

func TestAWithdrawnClearanceEndsTheTermInGoodOrder(t *testing.T) {
	scenario(t, func(s *stage) {
		a, g := s.guardedCandidate("a", true)
		a.SetStopTime(20 * time.Second) // longer than any trust
		g.campaign <- locks.Permission{Why: "rolled back"}
		_, cause := a.Loses()
		if !errors.Is(cause, election.ErrWithdrawn) {
			t.Errorf("the cause is %v", cause)
		}
		time.Sleep(21 * time.Second)
		synctest.Wait()
		if r := s.record(); r.Holder != "" {
			t.Errorf("%s holds the lock", r.Holder)
		}
		time.Sleep(time.Hour)
		a.Idles()
	})
}

// TestALockThatIsWonAfterTheClearanceWasWithdrawnIsGivenBack: the write was on its way. If
// the candidate kept the lock, it would keep out those for whom its clearance was
// withdrawn.
func TestALockThatIsWonAfterTheClearanceWasWithdrawnIsGivenBack(t *testing.T) {
	scenario(t, func(s *stage) {
		var g *guarded
		a := s.start("a", func(c *election.Config) { g = guard(c) })
		a.link.Set(lockstest.Fault{Delay: 500 * time.Millisecond})
		g.campaign <- granted
		time.Sleep(700 * time.Millisecond)
		if r := s.record(); r.Holder != "a" {
			t.Fatalf("%q holds the lock: the write has not landed", r.Holder)
		}
		g.campaign <- locks.Permission{Why: "rolled back"}
		time.Sleep(interval) // no renewal has been answered, which would say so, too
		a.Idles()
		if r := s.record(); r.Holder != "" {
			t.Errorf("%s holds the lock", r.Holder)
		}
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
		if r := s.record(); r.Holder != "a" {
			t.Error("released while the guardian was at work")
		}
		time.Sleep(2 * time.Second)
		if r := s.record(); r.Holder != "" {
			t.Error("never released")
		}
	})
}

func TestAGuardianIsToldAtOnceThatTheTermIsLost(t *testing.T) {
	scenario(t, func(s *stage) {
		a, g := s.guardedCandidate("a", true)
		adopted := <-g.adopted
		a.SetStopTime(time.Second)
		a.link.Set(cut)
		a.Loses()
		synctest.Wait()
		if !errors.Is(context.Cause(adopted), election.ErrLost) {
			t.Errorf("the guardian's cause is %v", context.Cause(adopted))
		}
	})
}

func TestAGuardianThatLeavesEndsTheTermAndRun(t *testing.T) {
	scenario(t, func(s *stage) {
		gone := errors.New("this pod is gone")
		a, g := s.guardedCandidate("a", true)
		g.leave <- gone
		took, cause := a.Loses()
		s.want("the term ends", took, 0)
		if !errors.Is(cause, gone) {
			t.Errorf("the cause is %v", cause)
		}
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

func TestATermThatWaitsIsGivenUpOnRequest(t *testing.T) {
	scenario(t, func(s *stage) {
		a, _ := s.guardedCandidate("a", false)
		if err := a.Resign(s.T.Context()); err != nil {
			t.Error(err)
		}
		if r := s.record(); r.Holder != "" {
			t.Errorf("%s holds the lock", r.Holder)
		}
	})
}

var _ locks.Guardian = (*guarded)(nil)

func TestResignReturnsWhenRunDoes(t *testing.T) {
	scenario(t, func(s *stage) {
		a, _ := s.guardedCandidate("a", false)
		a.link.Set(lockstest.Fault{Delay: interval / 4})
		a.Stop()
		synctest.Wait() // the release is on its way, and nothing comes after it
		ctx, cancel := context.WithTimeout(s.T.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		if err := a.Resign(ctx); err != nil {
			t.Errorf("got %v", err)
		}
		s.want("Resign returns", time.Since(start), interval/2)
	})
}
