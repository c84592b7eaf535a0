// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks"
)

var errSick = errors.New("the disk is full")

// patient is a candidate whose health is set.
type patient struct {
	*seat
	err atomic.Pointer[error]
}

func (p *patient) set(err error) { p.err.Store(&err) }

// admit starts a candidate that checks its health.
func (s *stage) admit(identity string, health error, change ...func(*election.Config)) *patient {
	s.T.Helper()
	p := &patient{}
	p.set(health)
	p.seat = s.start(identity, append(change, func(c *election.Config) {
		c.Health.Check = func(context.Context) error { return *p.err.Load() }
	})...)
	return p
}

func unwell(identity string) locks.Peer {
	p := peer(identity)
	p.Unhealthy = errSick.Error()
	return p
}

func TestAnUnhealthyLeaderGivesUpAndStaysBack(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.admit("a", nil)
		a.Leads()
		b := s.start("b")
		time.Sleep(interval / 2)
		a.set(errors.New("the disk fills"))
		time.Sleep(lease / 2)
		a.set(errSick) // it was unhealthy all the while
		s.loses(a.seat, interval/2+lease-lease/2, election.ErrUnhealthy, errSick)
		s.leads(b, 0)
		a.set(nil)
		time.Sleep(interval)
		b.Stop()
		s.leads(a.seat, 2*lease-interval)
	})
}

func TestAnUnhealthyLeaderLeadsOnWhereWhoIsWellDoesNotCome(t *testing.T) {
	scenario(t, func(s *stage) {
		all := newCrowd("a", "gone")
		a := s.admit("a", nil, all.join)
		a.Leads()
		a.set(errSick)
		a.Loses()
		time.Sleep(2 * lease)
		a.Leads() // nobody else took the lock
		time.Sleep(4 * lease)
		a.Stays()
		if got := a.Status().Unhealthy; got == nil || !strings.Contains(got.Error(), "gone did not take the lock") {
			t.Errorf("the status says %v", got)
		}
	})
}

func TestALeaderThatIsUnwellForAWhileGoesOn(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.admit("a", nil)
		a.Leads()
		s.start("b")
		time.Sleep(interval / 2)
		for range 10 {
			time.Sleep(2 * interval)
			a.set(errSick)
			time.Sleep(lease - 2*interval)
			a.set(nil)
		}
		a.Stays()
	})
}

func TestAnUnhealthyCandidateLeavesTheLockToTheWellForALease(t *testing.T) {
	all := []locks.Peer{peer("a"), unwell("b"), peer("c")}
	sick := []locks.Peer{unwell("a"), unwell("b"), unwell("c")}
	type row struct {
		peers []locks.Peer
		want  time.Duration
	}
	each(t, map[string]row{
		"nobody tells":   {nil, 2 * lease},
		"one is well":    {all, 2 * lease},
		"nobody is well": {sick, lease},
		"it is alone":    {sick[1:2], lease},
	}, func(s *stage, test row) {
		a := s.leader("a")
		words := make(chan []locks.Peer)
		b := s.admit("b", errSick, informed(words))
		if test.peers != nil {
			words <- test.peers
		}
		if got := b.Status().Unhealthy; !errors.Is(got, errSick) {
			s.T.Errorf("the status says %v", got)
		}
		a.link.Set(cut)
		s.leads(b.seat, test.want)
	})
}

func TestALeaderLeadsOnWhileNobodyElseIsWellAndSaysSo(t *testing.T) {
	scenario(t, func(s *stage) {
		words := make(chan []locks.Peer)
		a := s.admit("a", nil, informed(words))
		a.Leads()
		words <- []locks.Peer{peer("a"), unwell("b")}
		a.set(errSick)
		time.Sleep(time.Hour)
		a.Stays()
		if got := a.Status().Unhealthy; got == nil || !strings.Contains(got.Error(), "leads on") || !errors.Is(got, errSick) {
			t.Errorf("the status says %v", got)
		}
		words <- []locks.Peer{unwell("a"), peer("b")}
		s.loses(a.seat, 0, election.ErrUnhealthy)
		synctest.Wait()
		if got := a.Status().Unhealthy; got == nil || got.Error() != errSick.Error() {
			t.Errorf("after its term the status says %v", got)
		}
		words <- []locks.Peer{unwell("a"), unwell("b")}
		a.Leads() // because the other never came
	})
}

// TestWhereAllAreUnwillingNobodyLeads, and that is no error.
func TestWhereAllAreUnwillingNobodyLeads(t *testing.T) {
	scenario(t, func(s *stage) {
		unwilling := fmt.Errorf("%w: nothing to do", election.ErrUnwilling)
		words := make(chan []locks.Peer)
		var told []string
		a := s.admit("a", nil, informed(words))
		a.Leads()
		b := s.admit("b", unwilling, logging(func(line string) { told = append(told, line) }))
		words <- []locks.Peer{unwell("a"), unwell("b")}
		a.set(unwilling)
		s.loses(a.seat, interval+lease)
		time.Sleep(time.Hour)
		a.Idles()
		b.Idles()
		b.set(nil)
		s.leadsWithin(b.seat, interval)
		if all := strings.Join(told, "\n"); strings.Contains(all, `"error"`) || strings.Count(all, "nothing to do") != 1 {
			t.Errorf("it logged:\n%s", all)
		}
	})
}

// TestACheckThatHangsMeansUnhealthyAndIsNotStartedTwice. Before the first has returned nobody campaigns.
func TestACheckThatHangsMeansUnhealthyAndIsNotStartedTwice(t *testing.T) {
	scenario(t, func(s *stage) {
		var calls atomic.Int32
		let := make(chan struct{})
		s.T.Cleanup(func() { close(let) })
		a := s.start("a", func(c *election.Config) {
			c.Health.Check = func(context.Context) error {
				if time.Sleep(time.Second); calls.Add(1) > 1 {
					<-let
				}
				return nil
			}
		})
		s.leads(a, time.Second)
		b := s.start("b")
		took, cause := a.Loses()
		s.want("a gives up", took, 2*interval-time.Second+lease)
		if !errors.Is(cause, election.ErrUnhealthy) || calls.Load() != 2 {
			t.Errorf("after %d calls the cause is %v", calls.Load(), cause)
		}
		b.Leads()
		a.Stop()
		s.ends(a)
	})
}
