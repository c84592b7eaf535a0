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

// pipe blocks whoever writes to it once it is shut, like a full one that nobody reads.
type pipe struct {
	shut atomic.Bool
	open chan struct{}
}

func newPipe(s *stage) *pipe {
	p := &pipe{open: make(chan struct{})}
	s.T.Cleanup(func() { close(p.open) })
	return p
}

func (p *pipe) write(string) {
	if p.shut.Load() {
		<-p.open
	}
}

// overran is a call of Config.OnOverrun.
type overran struct {
	term  election.Term
	cause error
	at    time.Time
}

// watched configures a candidate that reports its overruns.
func watched(overruns chan<- overran) func(*election.Config) {
	return func(c *election.Config) {
		c.OnOverrun = func(term election.Term, cause error) { overruns <- overran{term, cause, time.Now()} }
	}
}

// TestS1NothingThatHangsHidesTheEndOfTrust or keeps an overrun from being reported: not a
// log, a health check, or a subscriber that does not read.
func TestS1NothingThatHangsHidesTheEndOfTrust(t *testing.T) {
	each(t, map[string]func(*stage, *seat){
		"the API fails":    func(_ *stage, a *seat) { a.link.Set(lockstest.Fault{Err: errors.New("503")}) },
		"the lock is lost": func(s *stage, _ *seat) { s.write(func(r *locks.Record) { r.Holder = "thief" }) },
	}, func(s *stage, trouble func(*stage, *seat)) {
		overruns := make(chan overran, 10)
		log := newPipe(s)
		a := s.start("a", watched(overruns), logging(log.write), func(c *election.Config) {
			c.Health.Check = func(context.Context) error {
				log.write("")
				return nil
			}
		})
		_ = a.Subscribe(s.T.Context())
		a.SetStopTime(time.Hour)
		term, _ := a.Leads()
		start := time.Now()
		log.shut.Store(true)
		trouble(s, a)
		ends, cause := a.Loses()
		if !errors.Is(cause, election.ErrLost) || ends > deadline {
			s.T.Errorf("the work heard after %v of %v", ends, cause)
		}
		synctest.Wait()
		if got := a.Status(); got.State != status.StateStopping || got.Term.TrustedFor() > 0 {
			s.T.Errorf("at the end of trust the state is %s, trusted for %v", got.State, got.Term.TrustedFor())
		}
		grace := a.Timing().StopGrace
		time.Sleep(grace - time.Millisecond)
		synctest.Wait()
		if len(overruns) > 0 || a.Status().Overrun {
			s.T.Error("an overrun is told before it is one")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if len(overruns) != 1 {
			s.T.Fatalf("%d overruns were told", len(overruns))
		}
		if o := <-overruns; o.at.Sub(start) != ends+grace || o.term != term || !errors.Is(o.cause, election.ErrLost) {
			s.T.Errorf("told %v after the trouble: %+v, %v", o.at.Sub(start), o.term, o.cause)
		}
		if !a.Status().Overrun {
			s.T.Error("the status knows nothing of the overrun")
		}
	})
}

func TestAnOverrunIsToldOnceAndNeverOfWorkThatStopsInTime(t *testing.T) {
	for takes, told := range map[time.Duration]int{timing.DefaultStopTimeout - time.Millisecond: 0, timing.DefaultStopTimeout + time.Second: 1} {
		scenario(t, func(s *stage) {
			overruns := make(chan overran, 10)
			a := s.start("a", watched(overruns))
			a.SetStopTime(takes)
			term, _ := a.Leads()
			time.Sleep(time.Minute)
			start := time.Now()
			a.Stop()
			_ = a.Wait()
			if len(overruns) != told {
				t.Fatalf("%d overruns were told of work that took %v", len(overruns), takes)
			}
			for range told {
				if o := <-overruns; o.at.Sub(start) != timing.DefaultStopTimeout || o.term != term || !errors.Is(o.cause, election.ErrStopped) {
					t.Errorf("told after %v: %v", o.at.Sub(start), o.cause)
				}
			}
			if a.Status().Overrun {
				t.Error("the work has returned, and the status has it as overrun")
			}
		})
	}
}

// TestALossShortensTheTimeToStop: if trust ends while the work stops in good order, the
// work has a StopGrace left, whatever is left of the StopTimeout.
func TestALossShortensTheTimeToStop(t *testing.T) {
	scenario(t, func(s *stage) {
		overruns := make(chan overran, 10)
		log := newPipe(s)
		a := s.start("a", watched(overruns), logging(log.write))
		a.SetStopTime(time.Hour)
		a.Leads()
		start := time.Now()
		log.shut.Store(true)
		go a.Resign(s.T.Context()) // it is logged, and no renewal follows
		time.Sleep(time.Minute)
		if len(overruns) != 1 {
			t.Fatalf("%d overruns were told", len(overruns))
		}
		if o := <-overruns; o.at.Sub(start) != deadline+a.Timing().StopGrace {
			t.Errorf("told after %v", o.at.Sub(start))
		}
	})
}

// TestS2TheGraceCountsFromTheEndOfTrustOverASuspension: others count from the last renewal that they saw,
// and do not sleep. Work that returns at once when the process goes on is not late.
func TestS2TheGraceCountsFromTheEndOfTrustOverASuspension(t *testing.T) {
	grace := election.Timing{}.WithDefaults().StopGrace
	type row struct {
		first, second time.Duration // of sleep: before the end of trust, and right after the work has heard of it
		stops         time.Duration
		after         time.Duration // from when the work has heard; zero if nothing is late
	}
	each(t, map[string]row{
		"nothing is left":               {deadline + grace, 0, time.Hour, 100 * time.Millisecond},
		"nothing is left, and returns":  {deadline + grace, 0, 99 * time.Millisecond, 0},
		"part of it is left":            {deadline + 2*time.Second, 0, time.Hour, grace - 2*time.Second},
		"the process sleeps in it":      {0, 2 * time.Second, time.Hour, grace - 2*time.Second},
		"the process sleeps through it": {0, time.Hour, time.Hour, interval / 4},
	}, func(s *stage, tc row) {
		var asleep atomic.Int64
		told := make(chan time.Time, 1)
		a := s.candidate("a", func(c *election.Config) { c.OnOverrun = func(election.Term, error) { told <- time.Now() } })
		a.SetSuspended(func() time.Duration { return time.Duration(asleep.Load()) })
		a.SetStopTime(tc.stops)
		a.Start()
		a.Leads()
		a.link.Set(cut)
		asleep.Store(int64(tc.first))
		if _, cause := a.Loses(); !errors.Is(cause, election.ErrLost) {
			s.T.Fatal(cause)
		}
		heard := time.Now()
		asleep.Add(int64(tc.second))
		time.Sleep(time.Minute)
		if len(told) == 0 {
			if tc.after > 0 {
				s.T.Error("no overrun was told")
			}
			return
		}
		after := (<-told).Sub(heard)
		if late := after - tc.after; tc.after == 0 || late > interval/4+100*time.Millisecond || late < -interval/4 {
			s.T.Errorf("told %v after the work heard, want %v", after, tc.after)
		}
	})
}
