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
		"the lock is lost": func(s *stage, _ *seat) { s.write(steal) },
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
	const timeout = timing.DefaultStopTimeout
	for takes, told := range map[time.Duration]int{timeout - time.Millisecond: 0, timeout + time.Second: 1} {
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
		a := s.leader("a", watched(overruns), logging(log.write))
		a.SetStopTime(time.Hour)
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
		told := make(chan time.Time, 1)
		a := s.candidate("a", func(c *election.Config) { c.OnOverrun = func(election.Term, error) { told <- time.Now() } })
		asleep := suspends(a)
		a.SetStopTime(tc.stops)
		a.Start()
		a.Leads()
		a.link.Set(cut)
		asleep(tc.first)
		if _, cause := a.Loses(); !errors.Is(cause, election.ErrLost) {
			s.T.Fatal(cause)
		}
		heard := time.Now()
		asleep(tc.first + tc.second)
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

// probe is how often a kubelet asks.
const probe = 10 * time.Second

// dies returns how long it takes a probe to find that the elector is wedged.
func dies(t *testing.T, e *election.Elector) time.Duration {
	t.Helper()
	start := time.Now()
	for time.Since(start) < time.Hour {
		time.Sleep(probe)
		if err := e.Alive(); err != nil {
			t.Log(err)
			return time.Since(start)
		}
	}
	t.Fatal("no probe failed within an hour")
	return 0
}

func lives(t *testing.T, when string, e *election.Elector) {
	t.Helper()
	if err := e.Alive(); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
}

func TestAnElectorIsAliveWhateverTheAPIDoes(t *testing.T) {
	for _, fault := range []lockstest.Fault{cut, {Mute: true}, {LoseAnswers: true}, {Delay: 3 * time.Second}, {Err: errors.New("503")}} {
		scenario(t, func(s *stage) {
			all := []*seat{s.start("a"), s.start("b"), s.start("c")}
			for _, c := range all {
				c.link.Set(fault)
			}
			for range 60 {
				time.Sleep(probe)
				for _, c := range all {
					lives(t, c.Status().Identity, c.Elector)
				}
			}
		})
	}
}

func TestAnElectorThatDoesNotRunIsAlive(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.candidate("a")
		idle := func(when string) {
			for range 10 {
				time.Sleep(time.Hour)
				lives(t, when, a.Elector)
			}
		}
		idle("before Run")
		a.Start()
		time.Sleep(time.Minute)
		a.Stop()
		s.ends(a)
		idle("after Run")
	})
}

func TestAnElectorThatIsWedgedIsFound(t *testing.T) {
	const soon = deadline + interval + 3*probe
	for name, hangs := range map[string]func(c *election.Config, let chan struct{}){
		"a lock that does not return from reads": func(c *election.Config, let chan struct{}) {
			altering(func(l *altered) {
				l.read = func(context.Context) (locks.Snapshot, error) { <-let; return locks.Snapshot{}, nil }
			})(c)
		},
		"a lock that does not return from writes": func(c *election.Config, let chan struct{}) {
			altering(func(l *altered) {
				l.write = func(context.Context, locks.Version, locks.Record) (locks.Snapshot, error) {
					<-let
					return locks.Snapshot{}, locks.ErrConflict
				}
			})(c)
		},
		"a takeover delay that does not return": func(c *election.Config, let chan struct{}) {
			c.TakeoverDelay = func(election.Takeover) time.Duration { <-let; return 0 }
		},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(s *stage) {
				let := make(chan struct{})
				s.T.Cleanup(func() { close(let) })
				a := s.start("a", func(c *election.Config) { hangs(c, let) })
				if took := dies(t, a.Elector); took > soon {
					t.Errorf("it was found after %v, want %v at most", took, soon)
				}
			})
		})
	}
}

func TestAProcessThatStoodStillIsNotKilledForIt(t *testing.T) {
	scenario(t, func(s *stage) {
		let := make(chan struct{})
		a := s.start("a", func(c *election.Config) {
			c.TakeoverDelay = func(election.Takeover) time.Duration { <-let; return 0 }
		})
		time.Sleep(time.Hour)
		lives(t, "before the loop has run again", a.Elector)
		lives(t, "a second probe at once", a.Elector)
		close(let)
		a.Leads()
		for range 10 {
			time.Sleep(probe)
			lives(t, "thereafter", a.Elector)
		}
	})
}
