// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
	"github.com/zonelect/zonelect/locks/memory"
)

var errWork = errors.New("the work failed")

func TestRunReturnsWhatTheWorkReturnsByItself(t *testing.T) {
	for _, want := range []error{nil, errWork} {
		led(t, func(s *stage, a *seat) {
			a.Quit <- want
			if err := a.Wait(); !errors.Is(err, want) {
				t.Errorf("Run: %v, want %v", err, want)
			}
			if r := s.record(); r.Holder != "" || r.Details.Released != r.Details.Token {
				t.Errorf("the record is %+v", r)
			}
		})
	}
}

// It waits for a renewal, begins tries for a RenewDeadline, and each takes that long at
// most.
func TestAReleaseThatFailsEnds(t *testing.T) {
	for _, refused := range []time.Duration{0, time.Second, 4 * time.Second, 9 * time.Second} {
		led(t, func(s *stage, a *seat) {
			a.link.Set(lockstest.Fault{Err: errors.New("500")})
			start := time.Now()
			a.Stop()
			time.Sleep(refused)
			a.link.Set(cut)
			s.ends(a)
			if took := time.Since(start); took > 2*(timing.DefaultRenewDeadline+timing.DefaultRenewInterval) {
				t.Errorf("refused for %v, the release took %v", refused, took)
			}
		})
	}
}

func TestAResignedTermIsLeftToOthers(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		b := s.start("b")
		if err := b.Resign(s.T.Context()); !errors.Is(err, election.ErrNotLeading) {
			t.Errorf("Resign of a follower: %v, want ErrNotLeading", err)
		}
		s.resigns(a)
		if cause := <-a.Ended; !errors.Is(cause, election.ErrResigned) {
			t.Errorf("cause is %v", cause)
		}
		s.leads(b, 0, status.CauseReleased)
		b.Stop() // no other candidate is there: a comes back
		a.Leads()
		s.resigns(a)
		s.leads(a, interval)
	})
}

func TestAStopWhileTheAcquisitionIsOnItsWayGivesTheLockBack(t *testing.T) {
	failing := lockstest.Fault{Err: errors.New("503")}
	type row struct{ fault, then lockstest.Fault }
	each(t, map[string]row{
		"slow":                     {fault: lockstest.Fault{Delay: 600 * time.Millisecond}}, // reads until 1.2s, its write lands at 1.8s
		"lost":                     {fault: unanswered},
		"lost, and no watch tells": {fault: lockstest.Fault{LoseAnswers: true, Mute: true}},
		"and the next reads fail":  {fault: lockstest.Fault{LoseAnswers: true, Mute: true}, then: failing},
	}, func(s *stage, test row) {
		a := s.candidate("a")
		a.link.Set(test.fault)
		a.Start()
		time.Sleep(1900 * time.Millisecond)
		s.holds("else no acquisition is on its way:", "a")
		a.Stop()
		a.link.Set(test.then)
		if test.then.Err != nil {
			time.Sleep(3 * time.Second)
			s.holds("else none is to be given back:", "a")
		}
		a.link.Set(whole)
		s.ends(a)
		s.holds("after the end", "")
		s.leads(s.start("b"), 0)
	})
}

func TestTheWorksContextCarriesTheTermAndTheValuesOfRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		e, err := election.New(election.Config{Lock: memory.New("lock"), Candidate: locks.Candidate{Identity: "a"}})
		must(t, err)
		err = e.Run(context.WithValue(t.Context(), key{}, "value"), func(ctx context.Context, term election.Term) error {
			if got, ok := election.TermFromContext(ctx); !ok || got != term {
				t.Errorf("the context has the term %+v, want %+v", got, term)
			}
			if ctx.Value(key{}) != "value" {
				t.Error("the context has lost its values")
			}
			if err := e.Run(ctx, nil); err == nil || !strings.Contains(err.Error(), "running already") {
				t.Errorf("a second Run: %v", err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if err := e.Run(t.Context(), nil); !errors.Is(err, election.ErrConfig) {
			t.Errorf("a Run without work: %v, want ErrConfig", err)
		}
	})
}

func TestAProblemIsToldOnceAndItsEndToo(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.candidate("a")
		a.link.Set(lockstest.Fault{Err: fmt.Errorf("get: %w", locks.ErrForbidden)})
		transitions := a.Subscribe(s.T.Context())
		a.Start()
		time.Sleep(time.Minute)
		if err := a.Status().Problem; !errors.Is(err, locks.ErrForbidden) {
			t.Errorf("the status' problem is %v", err)
		}
		a.link.Set(whole)
		a.Leads()
		if err := a.Status().Problem; err != nil {
			t.Errorf("the status' problem is still %v", err)
		}
		got, want := changes(pending(transitions)), []status.Change{status.ChangeProblem, status.ChangeResolved, status.ChangeLeading}
		if !slices.Equal(got, want) {
			t.Errorf("transitions are %v, want %v", got, want)
		}
	})
}

func TestAConnectionFromAnotherPortIsNoNewProblem(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.candidate("a")
		transitions := a.Subscribe(s.T.Context())
		for port := range 100 {
			from := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 40000 + port}
			a.link.Set(lockstest.Fault{Err: &net.OpError{Op: "read", Net: "tcp", Source: from, Err: errors.New("reset")}})
			if port == 0 {
				a.Start()
			}
			time.Sleep(time.Second)
		}
		if told := pending(transitions); len(told) != 1 {
			t.Errorf("it is told again: %+v", told)
		}
	})
}

func TestNoProblemOutlivesItsCause(t *testing.T) {
	led(t, func(_ *stage, a *seat) {
		a.link.Set(lockstest.Fault{LoseAnswers: true, LoseReads: true})
		a.Loses()
		time.Sleep(time.Minute)
		if a.Status().Problem == nil {
			t.Error("the status knows of no problem")
		}
		a.link.Set(whole)
		a.Leads()
		time.Sleep(interval + time.Millisecond) // a renewal
		if err := a.Status().Problem; err != nil {
			t.Errorf("the status' problem is still %v", err)
		}
	})
}

func TestALostWriteIsNoProblemOnceAnotherLeads(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.candidate("a")
		a.link.Set(lockstest.Fault{LoseWrites: true})
		a.Start()
		time.Sleep(time.Minute)
		if a.Status().Problem == nil {
			t.Error("the status knows of no problem")
		}
		s.start("b").Leads()
		time.Sleep(time.Minute)
		if err := a.Status().Problem; err != nil {
			t.Errorf("the status' problem is still %v", err)
		}
	})
}

func TestAWatchThatIsForbiddenIsReplacedByReads(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		b := s.candidate("b", altering(func(l *altered) {
			l.watch = func(context.Context, locks.Version, chan<- locks.Event) error {
				return fmt.Errorf("watch: %w", locks.ErrForbidden)
			}
		}))
		b.Start()
		time.Sleep(time.Minute)
		b.Idles()
		if !errors.Is(b.Status().Problem, locks.ErrForbidden) {
			t.Errorf("the status' problem is %v", b.Status().Problem)
		}
		a.Stop()
		s.leadsWithin(b, 6*time.Second)
	})
}

func TestAnIdleFollowerAsksForNothing(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		b := s.start("b")
		time.Sleep(5 * time.Minute)
		if n := b.link.Calls("read") + b.link.Calls("watch") + b.link.Calls("write"); n > 2 {
			t.Errorf("%d requests in five minutes, want one read and one watch", n)
		}
		if n := a.link.Calls("write"); n > 151 { // the acquisition and 0.5 per second
			t.Errorf("the leader wrote %d times in five minutes, want 151 at most", n)
		}
		if n := a.link.Calls("read") + a.link.Calls("watch"); n > 2 {
			t.Errorf("the leader asked %d times in five minutes beside its renewals", n)
		}
	})
}

func TestALeaderOnADeadWatchStartsAnother(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		a.link.Set(muted)
		time.Sleep(time.Second)
		a.link.Set(whole)
		time.Sleep(10 * time.Second)
		s.write(steal)
		s.loses(a, 0)
	})
}

// TestAReaderMissesNoTransition, though it does not read meanwhile. Its channel ends with its context.
func TestAReaderMissesNoTransition(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.candidate("a")
		ctx, end := context.WithCancel(s.T.Context())
		late, prompt := a.Subscribe(s.T.Context()), a.Subscribe(ctx)
		a.Start()
		var want []election.Transition
		for range 3 {
			a.Leads()
			s.resigns(a)
			want = append(want, pending(prompt)...)
		}
		if got := pending(late); len(want) < 6 || !slices.Equal(changes(got), changes(want)) {
			t.Errorf("it got %v\nwant %v", got, want)
		}
		a.Leads() // which the other has not read when its context ends
		end()
		synctest.Wait()
		if _, more := <-prompt; more {
			t.Error("the channel is open")
		}
		s.resigns(a)
	})
}

// changes are the changes alone.
func changes(all []election.Transition) (changes []status.Change) {
	for _, told := range all {
		changes = append(changes, told.Change)
	}
	return changes
}

// pending returns what comes at once.
func pending(transitions <-chan election.Transition) (all []election.Transition) {
	for {
		synctest.Wait()
		select {
		case t := <-transitions:
			all = append(all, t)
		default:
			return all
		}
	}
}
