// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package clientgo

import (
	"math"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/plan"
)

func TestTheFirstFollowerOfManyReadsSooner(t *testing.T) {
	for _, test := range []struct {
		followers, pauses int
		want              float64
	}{
		{1, 1, 0.8375}, // the mean square of a pause by twice its mean
		{1, 2, 2 * 0.8375},
		{2, 1, 1.6/3*(1-0.375*0.375*0.375) + 0.375*0.375*1.2/5},
		{0, 1, 0.8375},
	} {
		if got := firstOf(test.followers, test.pauses); math.Abs(got-test.want) > 0.01 {
			t.Errorf("of %d followers the first has made %d pauses after %v periods, want %v", test.followers, test.pauses, got, test.want)
		}
	}
}

// The measurements are of client-go's LeaseLocks of three candidates on Kubernetes 1.36.
func TestClientGosBoundsHoldWhatWasMeasured(t *testing.T) {
	b := Bounds(election.Timing{}.WithDefaults(), plan.Requirements{RoundTrip: 10 * time.Millisecond, Candidates: 3, MaxClockDrift: 0.01, APIOutage: time.Second})
	for name, test := range map[string]struct {
		bound       plan.Bound
		least, most float64 // seconds
	}{
		"stopped":     {b.Stop, 0.54, 2.9},
		"killed":      {b.Kill, 15.5, 18.9},
		"dead server": {b.DeadServer, 45.6, 60.2},
	} {
		mean, worst := test.bound.Mean.Total().Seconds(), test.bound.Worst.Total().Seconds()
		if mean < test.least || mean > test.most || worst < test.most {
			t.Errorf("%s: the mean is %v, the worst %v; measured was %v to %v", name, mean, worst, test.least, test.most)
		}
	}
}
