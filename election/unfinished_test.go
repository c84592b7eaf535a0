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
	"sync/atomic"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
	"github.com/zonelect/zonelect/locks/memory"
)

// TestS5AnOverrunTermIsNotReclaimed: more than the late work may still go on. Its own
// candidate waits like any other.
func TestS5AnOverrunTermIsNotReclaimed(t *testing.T) {
	each(t, map[string]func(*stage, *seat){
		"lost for want of answers": func(_ *stage, a *seat) {
			a.link.Set(cut)
			a.Loses()
			a.link.Set(whole)
		},
		"resigned": func(s *stage, a *seat) {
			if err := a.Resign(s.T.Context()); !errors.Is(err, election.ErrNotReleased) {
				t.Errorf("Resign: %v, want ErrNotReleased", err)
			}
			a.Loses()
		},
		"emptied by a hand": func(s *stage, a *seat) {
			s.write(emptied)
			a.Loses()
		},
	}, func(s *stage, ends func(*stage, *seat)) {
		a := s.start("a", func(c *election.Config) { c.Timing.StopTimeout = 6 * time.Second })
		a.SetStopTime(7 * time.Second)
		first, _ := a.Leads()
		time.Sleep(interval + interval/2)
		ends(s, a)
		last := s.record().RenewTime
		second, _ := a.Leads()
		if waited := time.Since(last); waited < lease || waited > lease+interval || second.Cause == status.CauseReclaimed {
			s.T.Errorf("%v after the last renewal of %+v came %+v", waited, first, second)
		}
	})
}

// TestS5WorkThatWasLateIsNotReclaimedThoughTheElectorHungMeanwhile.
func TestS5WorkThatWasLateIsNotReclaimedThoughTheElectorHungMeanwhile(t *testing.T) {
	scenario(t, func(s *stage) {
		var hangs atomic.Int64
		a := s.leader("a", logging(func(string) { time.Sleep(time.Duration(hangs.Load())) }))
		a.SetStopTime(a.Timing().StopGrace + time.Second)
		hangs.Store(int64(deadline + a.Timing().StopGrace + 3*time.Second))
		a.link.Set(lockstest.Fault{Err: errors.New("503")}) // which it logs
		a.Loses()
		hangs.Store(0)
		a.link.Set(whole)
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
	each(t, map[string]func(*stage, *seat){
		"resigned": func(s *stage, a *seat) {
			if err := a.Resign(s.T.Context()); !errors.Is(err, election.ErrNotReleased) {
				t.Errorf("Resign: %v, want ErrNotReleased", err)
			}
		},
		"lost":               func(_ *stage, a *seat) { a.link.Set(cut) },
		"returned by itself": func(_ *stage, a *seat) { a.Quit <- nil },
	}, func(s *stage, ends func(*stage, *seat)) {
		a := s.candidate("a")
		a.Work = func(ctx context.Context, _ election.Term) error {
			select {
			case <-ctx.Done():
			case <-a.Quit:
			}
			return fmt.Errorf("a part hangs: %w", election.ErrUnfinished)
		}
		a.Start()
		ends(s, a)
		for range 2 {
			if err := a.Wait(); !errors.Is(err, election.ErrUnfinished) {
				s.T.Errorf("Run: %v", err)
			}
			a.link.Set(whole)
			a.Work = func(context.Context, election.Term) error { s.T.Error("it leads"); return nil }
			a.Start()
		}
		s.holds("after unfinished work", "a")
	})
}

func TestResignSaysWhetherTheLockWasReleased(t *testing.T) {
	type row struct {
		meanwhile func(*stage, *seat)
		stop      time.Duration
		says      string // empty: it was released
	}
	each(t, map[string]row{
		"all is well":      {func(*stage, *seat) {}, 3 * time.Second, ""},
		"too late":         {func(*stage, *seat) {}, time.Hour, "not stopped in time"},
		"lost meanwhile":   {func(_ *stage, a *seat) { a.link.Set(cut) }, 12 * time.Second, "deadline exceeded"},
		"taken by another": {func(s *stage, _ *seat) { s.write(taken) }, 3 * time.Second, "this candidate no longer held it"},
		"no answers":       {func(_ *stage, a *seat) { a.link.Set(lockstest.Fault{Err: errors.New("503")}) }, 3 * time.Second, "503"},
	}, func(s *stage, test row) {
		a := s.leader("a")
		a.SetStopTime(test.stop)
		said := make(chan error, 1)
		go func() { said <- a.Resign(context.Background()) }()
		time.Sleep(time.Second)
		test.meanwhile(s, a)
		start := time.Now()
		err := <-said
		a.link.Set(whole)
		if took, most := time.Since(start), timing.DefaultStopTimeout; took > most {
			s.T.Errorf("it took %v to say so, want %v at most", took, most)
		}
		if test.says == "" && err == nil {
			return
		}
		if !errors.Is(err, election.ErrNotReleased) || !strings.Contains(err.Error(), test.says) {
			s.T.Errorf("got %v, want ErrNotReleased that says %q", err, test.says)
		}
	})
}

// TestWorkThatAsksForItsOwnEndIsNotStuck: it cannot wait for its own return.
func TestWorkThatAsksForItsOwnEndIsNotStuck(t *testing.T) {
	type row struct {
		with  func(context.Context) context.Context
		takes time.Duration
		says  error
	}
	each(t, map[string]row{
		"with its context": {func(ctx context.Context) context.Context { return ctx }, 0, election.ErrResigned},
		"with another":     {context.WithoutCancel, timing.DefaultStopTimeout, election.ErrNotReleased},
	}, func(s *stage, tc row) {
		a := s.candidate("a")
		said := make(chan error, 100)
		a.Work = func(ctx context.Context, _ election.Term) error {
			start := time.Now()
			err := a.Resign(tc.with(ctx))
			s.want("Resign returns", time.Since(start), tc.takes)
			said <- err
			return err
		}
		a.Start()
		if err := <-said; !errors.Is(err, tc.says) {
			s.T.Errorf("Resign: %v, want %v", err, tc.says)
		}
		a.Stop()
		s.ends(a)
		if held := s.record().Holder == "a"; held != (tc.takes > 0) {
			s.T.Errorf("the lock is held: %v", held)
		}
	})
}

// TestWorkThatEndsItsGoroutineEndsItsTerm unfinished, because nobody knows what it would
// have waited for.
func TestWorkThatEndsItsGoroutineEndsItsTerm(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.candidate("a")
		a.Work = func(context.Context, election.Term) error {
			runtime.Goexit()
			return nil
		}
		a.Start()
		if err := a.Wait(); !errors.Is(err, election.ErrUnfinished) || !strings.Contains(err.Error(), "Goexit") {
			t.Errorf("Run: %v", err)
		}
		s.leads(s.start("b"), lease)
	})
}

// TestAPanicOfTheWorkEndsTheProcess and says where it came from. This very test
// is that process, too.
func TestAPanicOfTheWorkEndsTheProcess(t *testing.T) {
	const asked = "ZONELECT_TEST_PANICS"
	if os.Getenv(asked) != "" {
		e, err := election.New(election.Config{Lock: memory.New("lock"), Candidate: locks.Candidate{Identity: "a"}})
		must(t, err)
		_ = e.Run(t.Context(), func(context.Context, election.Term) error { return breaks() })
		t.Fatal("Run has returned")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), asked+"=1")
	out, err := cmd.CombinedOutput()
	var status *exec.ExitError
	says := strings.Contains(string(out), "panic: it breaks") && strings.Contains(string(out), "election_test.breaks")
	if !errors.As(err, &status) || status.ExitCode() != 2 || !says {
		t.Errorf("it ended with %v:\n%s", err, out)
	}
}

//go:noinline
func breaks() error { panic("it breaks") }
