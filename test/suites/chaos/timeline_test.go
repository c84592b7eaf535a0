// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"slices"
	"testing"

	"github.com/zonelect/zonelect/internal/timeline"
	"github.com/zonelect/zonelect/test/kit/history"
	"github.com/zonelect/zonelect/test/kit/trial"
)

func TestARunIsDrawnWithItsFaultsAndCandidates(t *testing.T) {
	s := newStory()
	s.Bites, s.Mending, s.Healed = []bite{{Fault: "first", Bit: at(5)}, {Fault: "late", Bit: at(9)}}, at(8), at(8)
	g := &group{name: onLease, seats: []*seat{{Seat: &trial.Seat{Identity: "a", Zone: zones[0]}}}}
	h := drawn(result{}, []*group{g}, map[string]evidence{onLease: s.evidence})
	if len(h.Lanes) != 1 || len(h.Faults) != 2 || !h.Faults[0].To.Equal(at(8)) || !h.Faults[1].To.Equal(at(9)) || len(h.Notes) != 1 {
		t.Errorf("%+v", h)
	}
	if err := timeline.Render(io.Discard, h); err != nil {
		t.Error(err)
	}
}

func TestOfManyLocksThoseWithMostTermsAreDrawn(t *testing.T) {
	all := map[string]evidence{}
	for lock, terms := range map[string]int{"a": 1, "b": 3, "c": 1, "d": 2, "e": 0} {
		all[lock] = evidence{Terms: make(history.History, terms)}
	}
	if got := mostTerms([]string{"a", "b", "c", "d", "e"}, all); !slices.Equal(got, []string{"a", "b", "d"}) {
		t.Errorf("%v", got)
	}
}
