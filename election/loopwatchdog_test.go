// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

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
