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
	p := promise{gap: 2 * time.Second, away: time.Second, changes: 1}
	for want, found := range map[string]findings{
		"":                     {Gap: seconds(3), Changes: 1, Left: mostLeft, Late: 3},
		"overlap":              {Overlaps: 1},
		"lost":                 {Lost: 1},
		"nobody led":           {Silent: true},
		"promised are 3s":      {Gap: seconds(3.001)},
		"changed 2 times":      {Changes: 2},
		"goroutines were left": {Left: mostLeft + 1},
		"as nobody told them":  {Exits: 1},
	} {
		one := record{findings: found}
		wrong := strings.Join(slices.Concat(one.unsafe(), one.late(p), one.restless(p)), "; ")
		if (want == "") != (wrong == "") || !strings.Contains(wrong, want) {
			t.Errorf("of %+v it says %q, want %q", found, wrong, want)
		}
	}
}

func TestAnOutageIsPromisedOnceAndNotTwice(t *testing.T) {
	timing, lasted := timings[0], 7*time.Second
	one := outage(timing, lasted)
	both := together(timing, one, one)
	if want := lasted + 2*(one.limit()-lasted) + timing.LeaseDuration; both.limit() != want {
		t.Errorf("two outages at a time are promised %v, want %v", both.limit(), want)
	}
	if short, long := outage(timing, 100*time.Millisecond), outage(timing, time.Minute); short.limit() > 3*time.Second || long.limit() < time.Minute {
		t.Errorf("a short outage is promised %v, and a long one %v", short.limit(), long.limit())
	}
}

// But for a timing that survives no lost request.
func TestWhatHitsAFollowerDoesNotMoveLeadership(t *testing.T) {
	for _, timing := range timings {
		p := untouched(timing, time.Minute)
		survives := bounds(timing, 0).OutageSurvived.Total() >= 0
		if survives != (p.changes == 0) || survives != (p.gap == slack) {
			t.Errorf("%s promises %+v", timingName(timing), p)
		}
	}
}

func TestAFaultOfOneGroupTouchesNoOther(t *testing.T) {
	all := rounds(t, "configmap-garbled", "configmap-garbled+leader-killed")
	alone := plan{Faults: all[0], Timing: timings[0]}
	if got := promised(alone, onLease, 0); got != untouched(timings[0], 0) {
		t.Errorf("a group without a shield is promised %+v", got)
	}
	if got := promised(alone, onShield, 0); got != edited(timings[0], 0) {
		t.Errorf("the group with the shield is promised %+v", got)
	}
	pair := plan{Faults: all[1], Timing: timings[0]}
	want := together(timings[0], takeover(timings[0], 0), untouched(timings[0], 0))
	if got := promised(pair, onLease, 0); got != want {
		t.Errorf("with a second fault it is promised %+v, want %+v", got, want)
	}
}

// The default timing's promises are those of docs/timing.md and docs/failures.md.
func TestPromisesAreThoseOfTheDocs(t *testing.T) {
	timing := election.Timing{}
	for name, c := range map[string]struct {
		promise promise
		least   time.Duration
		most    time.Duration
	}{
		"the leader is killed":    {takeover(timing, 0), 15 * time.Second, 21 * time.Second},
		"it stops in good order":  {rolled(timing, 0), 0, 3 * time.Second},
		"the API is away for 30s": {outage(timing, 30*time.Second), 30 * time.Second, 37 * time.Second},
		"and the leader is dead":  {lossInOutage(timing, 30*time.Second), 45 * time.Second, 57 * time.Second},
	} {
		if limit := c.promise.limit(); limit < c.least || limit > c.most {
			t.Errorf("%s: promised are %v, want from %v to %v", name, limit, c.least, c.most)
		}
	}
}
