// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/plan"
)

// TestHowManyEtcdElectionsAreSurvivedInSeconds prints the table of test/suites/seconds/README.md: at how many
// of 25 moments between two renewals an election may begin, and the term survives.
func TestHowManyEtcdElectionsAreSurvivedInSeconds(t *testing.T) {
	if testing.Short() {
		t.Skip("the promises hold the elections that are surely survived")
	}
	for _, test := range []struct {
		trip, takes    time.Duration
		alone, severed int // percent, without and with the loss of the API server
	}{
		{10 * ms, 1600 * ms, 100, 100},
		{10 * ms, 1900 * ms, 100, 100},
		{10 * ms, 2000 * ms, 90, 90},
		{10 * ms, 2300 * ms, 30, 30},
		{50 * ms, 1600 * ms, 100, 100},
		{50 * ms, 1900 * ms, 100, 55},
		{50 * ms, 2000 * ms, 75, 30},
		{50 * ms, 2300 * ms, 15, 0},
	} {
		t.Run(fmt.Sprint(test.takes, " at ", test.trip), func(t *testing.T) {
			alone, severed := survives(t, test.trip, test.takes, false), survives(t, test.trip, test.takes, true)
			t.Logf("%v at %v: %d %%, with the API server %d %%", test.takes, test.trip, alone, severed)
			if alone < test.alone || severed < test.severed {
				t.Errorf("survived are %d %% and %d %%, documented are %d %% and %d %%", alone, severed, test.alone, test.severed)
			}
		})
	}
}

// survives is the share of moments, in percent, at which an election that loses writes may
// begin without ending the term.
func survives(t *testing.T, trip, takes time.Duration, sever bool) int {
	t.Helper()
	const moments = 25
	p, kept := named(timing.Fast(), plan.Requirements{RoundTrip: trip}), 0
	for i := range moments {
		try(t, p, func(r *trial) {
			r.after(time.Duration(2*i+1) * p.Timing.RenewInterval / (2 * moments))
			r.elects(takes, true)
			if sever {
				r.leader.sever()
				r.leader.set(func(l *link) { l.dials = lostDials(p) })
			}
			time.Sleep(takes + p.Timing.LeaseDuration)
			if len(r.leader.Ended) == 0 {
				kept++
			}
		})
	}
	return kept * 100 / moments
}
