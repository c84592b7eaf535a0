// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
)

func TestAPromiseThatIsNotKeptIsNamed(t *testing.T) {
	for want, found := range map[string]findings{
		"":                     {gaps: []gap{{from: at(5), to: at(8), within: false}}, Changes: 1, Left: mostLeft, Late: 3},
		"overlap":              {Overlaps: 1},
		"lost":                 {Lost: 1},
		"promised are 3s":      {gaps: []gap{{from: at(5), to: at(8.001), within: false}}},
		"a gap of 2s":          {gaps: []gap{{from: at(5), to: at(8), within: false}, {from: at(8), to: at(10), within: true}}},
		"changed 2 times":      {Changes: 2},
		"goroutines were left": {Left: mostLeft + 1},
		"as nobody told them":  {Exits: 1},
	} {
		one := record{findings: found}
		limit := func(g gap) time.Duration {
			if g.within {
				return time.Second
			}
			return 3 * time.Second
		}
		wrong := strings.Join(slices.Concat(one.unsafe(), one.late(limit), one.restless(1)), "; ")
		if (want == "") != (wrong == "") || !strings.Contains(wrong, want) {
			t.Errorf("of %+v it says %q, want %q", found, wrong, want)
		}
	}
}

func TestAnOutageIsPromisedAsLongAsItLasts(t *testing.T) {
	if short, long := outage(timings[0], 100*time.Millisecond), outage(timings[0], time.Minute); short.limit() > 3*time.Second || long.limit() < time.Minute {
		t.Errorf("a short outage is promised %v, and a long one %v", short.limit(), long.limit())
	}
}

// Except for a timing that survives no lost request.
func TestWhatHitsAFollowerDoesNotMoveLeadership(t *testing.T) {
	for _, timing := range timings {
		p := untouched(timing, time.Minute)
		survives := survived(timing) >= 0
		if survives != (p.changes == 0) || survives != (p.gap == slack) {
			t.Errorf("%s promises %+v", timingName(timing), p)
		}
	}
}

// The default timing's promises are those of docs/timing.md and docs/operate.md#fault-by-fault.
func TestPromisesAreThoseOfTheDocs(t *testing.T) {
	timing := election.Timing{}
	for name, c := range map[string]struct {
		promise promise
		least   time.Duration
		most    time.Duration
	}{
		"the leader is killed":    {takeover(timing, 0), 15 * time.Second, 21 * time.Second},
		"it stops in good order":  {rolled(timing, 0), 0, 4 * time.Second},
		"the API is away for 30s": {outage(timing, 30*time.Second), 30 * time.Second, 37 * time.Second},
		"and the leader is dead":  {lossInOutage(timing, 30*time.Second), 45 * time.Second, 57 * time.Second},
	} {
		if limit := c.promise.limit(); limit < c.least || limit > c.most {
			t.Errorf("%s: promised are %v, want from %v to %v", name, limit, c.least, c.most)
		}
	}
}
