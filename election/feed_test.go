// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"fmt"
	"maps"
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

// TestAFeedHasTheTransitionsOfEachElectorInOrder and misses none, though nobody reads
// meanwhile.
func TestAFeedHasTheTransitionsOfEachElectorInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		feed := election.NewFeed(t.Context())
		alone := map[string]<-chan election.Transition{}
		all := leaders(t, 20, func(e *election.Elector) {
			e.SubscribeTo(feed)
			e.SubscribeTo(feed) // changes nothing
			alone[e.Status().Lock.Name] = e.Subscribe(t.Context())
		})
		for range 3 {
			for _, e := range all {
				if err := e.Resign(t.Context()); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(time.Minute) // they lead again
		}
		want := map[string][]status.Change{}
		for name, transitions := range alone {
			for _, told := range pending(transitions) {
				want[name] = append(want[name], told.Change)
			}
		}
		got := map[string][]status.Change{}
		for _, told := range pending(feed.Transitions()) {
			name := told.Status.Lock.Name
			got[name] = append(got[name], told.Change)
		}
		if len(want["lock-0"]) < 10 || !maps.EqualFunc(got, want, slices.Equal) {
			t.Errorf("the feed has %v\nwant %v", got, want)
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
		feed := election.NewFeed(ctx)
		a := s.candidate("a")
		a.SubscribeTo(feed)
		a.Start()
		a.Leads() // which nobody has read when the feed ends
		end()
		synctest.Wait()
		if _, more := <-feed.Transitions(); more {
			t.Error("the channel is open")
		}
		a.SubscribeTo(feed)
		if err := a.Resign(s.T.Context()); err != nil {
			t.Error(err)
		}
		a.Leads()
	})
}

// TestALeaderHasThreeGoroutines: its Run, its work and its watch. A feed has one for all
// leaders.
func TestALeaderHasThreeGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		feed := election.NewFeed(t.Context())
		go func() {
			for range feed.Transitions() { // until the feed ends
			}
		}()
		synctest.Wait()
		before, n := runtime.NumGoroutine(), 50
		leaders(t, n, func(e *election.Elector) { e.SubscribeTo(feed) })
		time.Sleep(time.Minute + interval/2)
		synctest.Wait()
		if got := runtime.NumGoroutine() - before; got >= 4*n { // a few may be the runtime's
			t.Errorf("%d leaders have %d goroutines", n, got)
		}
	})
}
