// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/memory"
)

var errSick = errors.New("the disk is full")

// patient is a candidate whose health is set.
type patient struct {
	*seat

	mu  sync.Mutex
	err error
}

func (p *patient) set(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

func (p *patient) check(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// admit starts a candidate that checks its health.
func (s *stage) admit(identity string, health error, change ...func(*election.Config)) *patient {
	s.T.Helper()
	p := &patient{err: health}
	p.seat = s.start(identity, append([]func(*election.Config){func(c *election.Config) { c.Health.Check = p.check }}, change...)...)
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
		a.set(errSick)
		took, cause := a.Loses()
		s.want("a gives up", took, interval/2+lease)
		if !errors.Is(cause, election.ErrUnhealthy) || !errors.Is(cause, errSick) {
			t.Errorf("the cause is %v", cause)
		}
		_, took = b.Leads()
		s.want("b leads", took, 0)
		a.set(nil)
		time.Sleep(interval)
		b.Stop()
		_, took = a.Leads()
		s.want("a leads again", took, 2*lease-interval)
	})
}

// TestAnUnhealthyLeaderGivesUpThoughItsProblemChanges: it is unhealthy all the while.
func TestAnUnhealthyLeaderGivesUpThoughItsProblemChanges(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.admit("a", nil)
		a.Leads()
		time.Sleep(interval / 2)
		a.set(errSick)
		time.Sleep(lease / 2)
		a.set(errors.New("the disk is gone"))
		took, _ := a.Loses()
		s.want("a gives up", took, interval/2+lease-lease/2)
	})
}

func TestAnUnhealthyLeaderNamesAWellSuccessor(t *testing.T) {
	scenario(t, func(s *stage) {
		all := newCrowd("a", "b", "c")
		all.peers[1] = unwell("b")
		a := s.admit("a", nil, all.join)
		a.Leads()
		s.start("b", all.join)
		c := s.start("c", all.join)
		a.set(errSick)
		_, cause := a.Loses()
		if !errors.Is(cause, election.ErrUnhealthy) {
			t.Errorf("the cause is %v", cause)
		}
		_, took := c.Leads()
		s.want("the only well one leads", took, 0)
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
	for name, test := range map[string]struct {
		peers []locks.Peer
		want  time.Duration
	}{
		"nobody tells":   {nil, 2 * lease},
		"one is well":    {all, 2 * lease},
		"nobody is well": {sick, lease},
		"it is alone":    {sick[1:2], lease},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(s *stage) {
				a := s.start("a")
				a.Leads()
				words := make(chan []locks.Peer)
				b := s.admit("b", errSick, informed(words))
				if test.peers != nil {
					words <- test.peers
				}
				if got := b.Status().Unhealthy; !errors.Is(got, errSick) {
					t.Errorf("the status says %v", got)
				}
				a.link.Set(cut)
				_, took := b.Leads()
				s.want("b leads", took, test.want)
			})
		})
	}
}

func TestALeaderLeadsOnWhileNobodyElseIsWellAndSaysSo(t *testing.T) {
	scenario(t, func(s *stage) {
		words := make(chan []locks.Peer)
		a := s.admit("a", nil, informed(words))
		transitions := a.Subscribe(s.T.Context())
		a.Leads()
		words <- []locks.Peer{peer("a"), unwell("b")}
		a.set(errSick)
		time.Sleep(time.Hour)
		a.Stays()
		if got := a.Status().Unhealthy; got == nil || !strings.Contains(got.Error(), "leads on") || !errors.Is(got, errSick) {
			t.Errorf("the status says %v", got)
		}
		var told []string
		for len(transitions) > 0 || len(told) < 2 {
			if change := <-transitions; change.Change == status.ChangeHealth {
				told = append(told, change.Status.Unhealthy.Error())
			}
		}
		if len(told) != 2 {
			t.Errorf("%d words about it in an hour: %q", len(told), told)
		}
		words <- []locks.Peer{unwell("a"), peer("b")}
		took, cause := a.Loses()
		s.want("once another is well a gives up", took, 0)
		if !errors.Is(cause, election.ErrUnhealthy) {
			t.Errorf("the cause is %v", cause)
		}
		synctest.Wait()
		if got := a.Status().Unhealthy; got == nil || got.Error() != errSick.Error() {
			t.Errorf("after its term the status says %v", got)
		}
		words <- []locks.Peer{unwell("a"), unwell("b")}
		a.Leads() // because the other never came
	})
}

func TestWhereHealthIsRequiredRatherNobodyLeads(t *testing.T) {
	required := func(c *election.Config) { c.Health.Required = true }
	scenario(t, func(s *stage) {
		words := make(chan []locks.Peer)
		a := s.admit("a", nil, required, informed(words))
		a.Leads()
		b := s.admit("b", errSick, required)
		words <- []locks.Peer{unwell("a"), unwell("b")}
		a.set(errSick)
		took, _ := a.Loses()
		s.want("a gives up", took, interval+lease)
		time.Sleep(time.Hour)
		a.Idles()
		b.Idles()
		b.set(nil)
		if _, took := b.Leads(); took > interval {
			t.Errorf("b leads %v after it was well", took)
		}
	})
}

func TestAnUnwillingCandidateDoesNotCampaignAndThatIsNoError(t *testing.T) {
	scenario(t, func(s *stage) {
		var unwilling atomic.Bool
		unwilling.Store(true)
		var told []string
		a := s.start("a", logging(func(line string) { told = append(told, line) }), func(c *election.Config) {
			c.Health.Check = func(context.Context) error {
				if unwilling.Load() {
					return fmt.Errorf("%w: nothing to do", election.ErrUnwilling)
				}
				return nil
			}
		})
		time.Sleep(time.Hour)
		if a.Status().Term.Token != 0 {
			t.Error("it has led")
		}
		unwilling.Store(false)
		if _, took := a.Leads(); took > interval {
			t.Errorf("it leads %v after it became willing", took)
		}
		if all := strings.Join(told, "\n"); strings.Contains(all, `"error"`) || strings.Count(all, "nothing to do") != 1 {
			t.Errorf("it logged:\n%s", all)
		}
	})
}

func TestACandidateThatDoesNotKnowItsHealthYetDoesNotCampaign(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a", func(c *election.Config) {
			c.Health.Check = func(ctx context.Context) error {
				time.Sleep(time.Second)
				return nil
			}
		})
		_, took := a.Leads()
		s.want("a leads", took, time.Second)
	})
}

func TestACheckThatHangsMeansUnhealthyAndIsNotStartedTwice(t *testing.T) {
	scenario(t, func(s *stage) {
		var calls atomic.Int32
		let := make(chan struct{})
		s.T.Cleanup(func() { close(let) })
		a := s.start("a", func(c *election.Config) {
			c.Health.Check = func(ctx context.Context) error {
				if calls.Add(1) > 1 {
					<-let
				}
				return nil
			}
		})
		a.Leads()
		b := s.start("b")
		took, cause := a.Loses()
		s.want("a gives up", took, 2*interval+lease)
		if !errors.Is(cause, election.ErrUnhealthy) || calls.Load() != 2 {
			t.Errorf("after %d calls the cause is %v", calls.Load(), cause)
		}
		b.Leads()
		a.Stop()
		if err := a.Wait(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestHealthThatMakesNoSenseIsRefused(t *testing.T) {
	well := func(context.Context) error { return nil }
	for _, health := range []election.Health{
		{Check: well, Interval: -1}, {Check: well, After: -1}, {Required: true},
	} {
		_, err := election.New(election.Config{Lock: memory.New("lock"), Candidate: locks.Candidate{Identity: "a"}, Health: health})
		if !errors.Is(err, election.ErrConfig) {
			t.Errorf("%+v: %v", health, err)
		}
	}
}
