// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
	"github.com/zonelect/zonelect/locks/memory"
)

// runs runs c with that work until the test ends, and returns a function that waits for the
// result of Run.
func (s *stage) runs(c *seat, work func(context.Context, election.Term) error) (wait func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- c.Run(ctx, s.History.Lead(work)) }()
	ended := false
	wait = func() error {
		s.T.Helper()
		ended = true
		select {
		case err := <-over:
			return err
		case <-time.After(time.Hour):
			s.T.Fatal("Run does not return within an hour")
			return nil
		}
	}
	s.T.Cleanup(func() {
		if cancel(); !ended {
			_ = wait()
		}
	})
	synctest.Wait()
	return wait
}

// TestS5AnOverrunTermIsNotReclaimed: more than the late work may still go on. Its own
// candidate waits like any other.
func TestS5AnOverrunTermIsNotReclaimed(t *testing.T) {
	for name, ends := range map[string]func(*stage, *seat){
		"lost for want of answers": func(_ *stage, a *seat) {
			a.link.Set(cut)
			a.Loses()
			a.link.Set(lockstest.Fault{})
		},
		"resigned": func(s *stage, a *seat) {
			if err := a.Resign(s.T.Context()); !errors.Is(err, election.ErrNotReleased) {
				t.Errorf("Resign: %v, want ErrNotReleased", err)
			}
			a.Loses()
		},
		"emptied by a hand": func(s *stage, a *seat) {
			s.write(func(r *locks.Record) { r.Holder = "" })
			a.Loses()
		},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(s *stage) {
				a := s.start("a", func(c *election.Config) { c.Timing.StopTimeout = 6 * time.Second })
				a.SetStopTime(7 * time.Second)
				first, _ := a.Leads()
				time.Sleep(interval + interval/2)
				ends(s, a)
				last := s.record().RenewTime
				second, _ := a.Leads()
				if waited := time.Since(last); waited < lease || waited > lease+interval || second.Cause == status.CauseReclaimed {
					t.Errorf("%v after the last renewal of %+v came %+v", waited, first, second)
				}
			})
		})
	}
}

// TestS5WorkThatWasLateIsNotReclaimedThoughTheElectorHungMeanwhile.
func TestS5WorkThatWasLateIsNotReclaimedThoughTheElectorHungMeanwhile(t *testing.T) {
	scenario(t, func(s *stage) {
		hangs := &hangingLog{}
		a := s.start("a", func(c *election.Config) { c.Logger = logr.New(hangs) })
		a.SetStopTime(a.Timing().StopGrace + time.Second)
		a.Leads()
		hangs.until.Store(int64(deadline + a.Timing().StopGrace + 3*time.Second))
		a.link.Set(lockstest.Fault{Err: errors.New("503")}) // which it logs
		a.Loses()
		hangs.until.Store(0)
		a.link.Set(lockstest.Fault{})
		time.Sleep(a.Timing().StopGrace + 2*time.Second)
		a.Idles()
		b := s.start("b")
		now := time.Now()
		term, _ := a.Leads()
		if term.Cause == status.CauseReclaimed {
			t.Errorf("%v later came %+v", time.Since(now), term)
		}
		b.Idles()
	})
}

func TestS5AfterUnfinishedWorkThisProcessDoesNotCampaign(t *testing.T) {
	for name, ends := range map[string]func(*stage, *seat){
		"resigned": func(s *stage, a *seat) {
			if err := a.Resign(s.T.Context()); !errors.Is(err, election.ErrNotReleased) {
				t.Errorf("Resign: %v, want ErrNotReleased", err)
			}
		},
		"lost":           func(_ *stage, a *seat) { a.link.Set(cut) },
		"returns itself": nil,
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(s *stage) {
				a := s.candidate("a")
				wait := s.runs(a, func(ctx context.Context, _ election.Term) error {
					if ends != nil {
						<-ctx.Done()
					}
					return fmt.Errorf("a part hangs: %w", election.ErrUnfinished)
				})
				if ends != nil {
					ends(s, a)
				}
				err := wait()
				a.link.Set(lockstest.Fault{})
				if !errors.Is(err, election.ErrUnfinished) || ends != nil && !strings.Contains(err.Error(), "CampaignUnfinished") {
					t.Errorf("Run: %v", err)
				}
				again := a.Run(s.T.Context(), func(context.Context, election.Term) error { t.Error("it leads"); return nil })
				if !errors.Is(again, election.ErrUnfinished) || !strings.Contains(again.Error(), "CampaignUnfinished") {
					t.Errorf("the next Run: %v", again)
				}
				if s.record().Holder != "a" {
					t.Error("the lock was released")
				}
			})
		})
	}
}

// TestS5AProcessMayCampaignAfterUnfinishedWorkIfThatIsWanted, by the same Run or
// the next, when its lease has run out.
func TestS5AProcessMayCampaignAfterUnfinishedWorkIfThatIsWanted(t *testing.T) {
	for name, same := range map[string]bool{"by the same Run": true, "by the next Run": false} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(s *stage) {
				a := s.candidate("a", func(c *election.Config) { c.CampaignUnfinished = true })
				terms := make(chan election.Term, 10)
				work := func(ctx context.Context, term election.Term) error {
					if terms <- term; same || len(terms) > 1 {
						<-ctx.Done()
					}
					return election.ErrUnfinished
				}
				wait := s.runs(a, work)
				if same {
					_ = a.Resign(s.T.Context())
				} else {
					_ = wait()
					s.runs(a, work)
				}
				last := s.record().RenewTime
				<-terms
				second := <-terms
				if waited := time.Since(last); waited < lease || second.Cause == status.CauseReclaimed {
					t.Errorf("%v after the last renewal came %+v", waited, second)
				}
			})
		})
	}
}

// TestResignSaysWhetherTheLockWasReleased and HandOver too.
func TestResignSaysWhetherTheLockWasReleased(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(*stage, *seat)
		stop      time.Duration
		says      string // empty: it was released
	}{
		"all is well":      {func(*stage, *seat) {}, 3 * time.Second, ""},
		"too late":         {func(*stage, *seat) {}, time.Hour, "not stopped in time"},
		"lost meanwhile":   {func(_ *stage, a *seat) { a.link.Set(cut) }, 12 * time.Second, "deadline exceeded"},
		"taken by another": {func(s *stage, _ *seat) { s.write(func(r *locks.Record) { r.Holder = "thief" }) }, 3 * time.Second, "not this candidate's any more"},
		"no answers":       {func(_ *stage, a *seat) { a.link.Set(lockstest.Fault{Err: errors.New("503")}) }, 3 * time.Second, "503"},
	} {
		for _, call := range []string{"Resign", "HandOver"} {
			t.Run(call+": "+name, func(t *testing.T) {
				scenario(t, func(s *stage) {
					a := s.start("a")
					a.SetStopTime(test.stop)
					a.Leads()
					said := make(chan error, 1)
					go func() {
						if call == "Resign" {
							said <- a.Resign(context.Background())
						} else {
							said <- a.HandOver(context.Background(), locks.Successor{Identity: "b"})
						}
					}()
					time.Sleep(time.Second)
					test.meanwhile(s, a)
					start := time.Now()
					err := <-said
					a.link.Set(lockstest.Fault{})
					if took, most := time.Since(start), timing.DefaultStopTimeout; took > most {
						t.Errorf("it took %v to say so, want %v at most", took, most)
					}
					if test.says == "" && err != nil {
						t.Errorf("got %v", err)
					}
					if test.says != "" && (!errors.Is(err, election.ErrNotReleased) || !strings.Contains(err.Error(), test.says)) {
						t.Errorf("got %v, want ErrNotReleased that says %q", err, test.says)
					}
				})
			})
		}
	}
}

// TestWorkThatAsksForItsOwnEndIsNotStuck: it cannot wait for its own return.
func TestWorkThatAsksForItsOwnEndIsNotStuck(t *testing.T) {
	calls := map[string]func(context.Context, *seat) error{
		"Resign":   func(ctx context.Context, a *seat) error { return a.Resign(ctx) },
		"HandOver": func(ctx context.Context, a *seat) error { return a.HandOver(ctx, locks.Successor{Identity: "b"}) },
	}
	for name, test := range map[string]struct {
		with  func(context.Context) context.Context
		takes time.Duration // for the call to return
	}{
		"the work's context": {func(ctx context.Context) context.Context { return ctx }, 0},
		"one made from it":   {context.WithoutCancel, 0},
		"any other context":  {func(context.Context) context.Context { return context.Background() }, timing.DefaultStopTimeout},
	} {
		for called, call := range calls {
			t.Run(called+" with "+name, func(t *testing.T) {
				scenario(t, func(s *stage) {
					a, led := s.candidate("a"), 0
					said := make(chan error, 1)
					s.runs(a, func(ctx context.Context, _ election.Term) error {
						if led++; led > 1 {
							<-ctx.Done()
							return nil
						}
						start := time.Now()
						err := call(test.with(ctx), a)
						s.want(called+" returns", time.Since(start), test.takes)
						said <- err
						return err
					})
					if err := <-said; !errors.Is(err, election.ErrNotReleased) {
						t.Errorf("%s: %v, want ErrNotReleased", called, err)
					}
					synctest.Wait()
					if held := s.record().Holder == "a"; held != (test.takes > 0) {
						t.Errorf("the lock is held: %v", held)
					}
				})
			})
		}
	}
}

func TestARunWithoutWorkIsRefused(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.candidate("a")
		if err := a.Run(s.T.Context(), nil); !errors.Is(err, election.ErrConfig) {
			t.Errorf("Run: %v, want ErrConfig", err)
		}
		if n := a.link.Calls("read") + a.link.Calls("write"); n > 0 {
			t.Errorf("%d requests were made", n)
		}
	})
}

// TestWorkThatEndsItsGoroutineEndsItsTerm unfinished, because nobody knows what it would
// have waited for.
func TestWorkThatEndsItsGoroutineEndsItsTerm(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.candidate("a")
		wait := s.runs(a, func(context.Context, election.Term) error {
			runtime.Goexit()
			return nil
		})
		if err := wait(); !errors.Is(err, election.ErrUnfinished) || !strings.Contains(err.Error(), "Goexit") {
			t.Errorf("Run: %v", err)
		}
		_, took := s.start("b").Leads()
		s.want("b leads", took, lease)
	})
}

// TestAPanicOfTheWorkEndsTheProcess and says where it came from. This very test
// is that process, too.
func TestAPanicOfTheWorkEndsTheProcess(t *testing.T) {
	const asked = "ZONELECT_TEST_PANICS"
	if os.Getenv(asked) != "" {
		e, err := election.New(election.Config{Lock: memory.New("lock"), Candidate: locks.Candidate{Identity: "a"}})
		if err != nil {
			t.Fatal(err)
		}
		_ = e.Run(t.Context(), func(context.Context, election.Term) error { return breaks() })
		t.Fatal("Run has returned")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), asked+"=1")
	out, err := cmd.CombinedOutput()
	var status *exec.ExitError
	if !errors.As(err, &status) || status.ExitCode() != 2 || !strings.Contains(string(out), "panic: it breaks") || !strings.Contains(string(out), "election_test.breaks") {
		t.Errorf("it ended with %v:\n%s", err, out)
	}
}

//go:noinline
func breaks() error { panic("it breaks") }
