// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/memory"
)

// leaders runs n electors, each for a lock of its own, and returns when all lead. They stop at
// the end of the test.
func leaders(t *testing.T, n int, before func(*election.Elector)) (all []*election.Elector) {
	t.Helper()
	ctx, end := context.WithCancel(context.Background()) // T's context ends before its cleanups
	var runs sync.WaitGroup
	t.Cleanup(func() {
		end()
		runs.Wait()
	})
	for i := range n {
		e, err := election.New(election.Config{Lock: memory.New(fmt.Sprint("lock-", i)), Candidate: locks.Candidate{Identity: "a"}, TakeoverDelay: none})
		if err != nil {
			t.Fatal(err)
		}
		before(e)
		runs.Go(func() { _ = e.Run(ctx, untilStopped) })
		all = append(all, e)
	}
	synctest.Wait()
	return all
}

func untilStopped(ctx context.Context, _ election.Term) error {
	<-ctx.Done()
	return nil
}

// TestAReaderMissesNoTransition, though it does not read meanwhile.
func TestAReaderMissesNoTransition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late, prompt <-chan election.Transition
		all := leaders(t, 1, func(e *election.Elector) { late, prompt = e.Subscribe(t.Context()), e.Subscribe(t.Context()) })
		var want, got []status.Change
		for range 3 {
			if err := all[0].Resign(t.Context()); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute) // it leads again
			for _, told := range pending(prompt) {
				want = append(want, told.Change)
			}
		}
		for _, told := range pending(late) {
			got = append(got, told.Change)
		}
		if len(want) < 10 || !slices.Equal(got, want) {
			t.Errorf("it got %v\nwant %v", got, want)
		}
	})
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

func TestAFeedEndsWithItsContextAndTheElectorGoesOn(t *testing.T) {
	scenario(t, func(s *stage) {
		ctx, end := context.WithCancel(s.T.Context())
		a := s.candidate("a")
		transitions := a.Subscribe(ctx)
		a.Start()
		a.Leads() // which nobody has read when the feed ends
		end()
		synctest.Wait()
		if _, more := <-transitions; more {
			t.Error("the channel is open")
		}
		if err := a.Resign(s.T.Context()); err != nil {
			t.Error(err)
		}
		a.Leads()
	})
}

// TestALeaderHasThreeGoroutines: its Run, its work and its watch.
func TestALeaderHasThreeGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, n := runtime.NumGoroutine(), 50
		leaders(t, n, func(*election.Elector) {})
		time.Sleep(time.Minute + interval/2)
		synctest.Wait()
		if got := runtime.NumGoroutine() - before; got >= 4*n { // a few may be the runtime's
			t.Errorf("%d leaders have %d goroutines", n, got)
		}
	})
}
