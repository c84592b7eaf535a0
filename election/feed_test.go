// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
)

// TestAReaderMissesNoTransition, though it does not read meanwhile.
func TestAReaderMissesNoTransition(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.candidate("a")
		late, prompt := a.Subscribe(s.T.Context()), a.Subscribe(s.T.Context())
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
		s.resigns(a)
		a.Leads()
	})
}
