// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/plan"
)

// FuzzPlan plans for any requirements: the plan is valid and meets them, or the error says that
// they are impossible.
func FuzzPlan(f *testing.F) {
	sec := int64(time.Second)
	f.Add(int64(0), int64(0), int64(0), 0.0, int64(0), 0, 0, false)
	f.Add(30*sec, 45*sec, 5*sec, 0.01, sec/20, 3, 3, false)
	f.Add(5*sec, int64(0), sec/5, 0.5, 2*sec, 10000, 10000, true)
	f.Add(86400*sec, int64(0), 86400*sec, 0.5, 86400*sec, 10000, 1, false)
	f.Add(int64(math.MaxInt64), int64(math.MinInt64), int64(math.MaxInt64), math.NaN(), int64(math.MaxInt64), math.MaxInt, math.MinInt, true)
	f.Add(sec, sec, sec, math.Inf(1), int64(1), 1, 2, false)
	f.Fuzz(func(t *testing.T, outage, failover, stop int64, drift float64, trip int64, candidates, zones int, exclusive bool) {
		req := plan.Requirements{
			APIOutage: time.Duration(outage), Failover: time.Duration(failover), Stop: time.Duration(stop), MaxClockDrift: drift,
			RoundTrip: time.Duration(trip), Candidates: candidates, Zones: zones, Exclusive: exclusive,
		}
		p, err := req.Plan()
		if err != nil {
			if !errors.Is(err, plan.ErrImpossible) {
				t.Errorf("%+v: %v", req, err)
			}
			return
		}
		if err := p.Timing.Validate(); err != nil {
			t.Errorf("%+v: %v", req, err)
		}
		b := p.Bounds
		if b.OutageSurvived.Total() < req.APIOutage || b.StopLeft.Total() < req.Stop || p.Timing.StopTimeout < req.Stop {
			t.Errorf("%+v: survives %v, and leaves %v to stop", req, b.OutageSurvived.Total(), b.StopLeft.Total())
		}
		if req.Failover > 0 && b.DeadServer.Worst.Total() > req.Failover {
			t.Errorf("%+v: a failover takes %v", req, b.DeadServer.Worst.Total())
		}
		checkBounds(t, p.Timing, b)
	})
}

// FuzzBounds derives bounds from any valid timing and any requirements that are not refused: durations
// that are not negative, and means below the worst.
func FuzzBounds(f *testing.F) {
	sec := int64(time.Second)
	f.Add(15*sec, 10*sec, 2*sec, 2*sec, 0.01, false, 5*sec, 5*sec, sec/20, 3, 3)
	f.Add(int64(0), int64(0), int64(0), int64(0), 0.0, true, int64(0), int64(0), int64(0), 0, 0)
	f.Add(3600*sec, 1800*sec, sec/1000, 60*sec, 0.5, true, 7200*sec, int64(0), 10*sec, 10000, 1)
	f.Add(365*24*3600*sec, sec, sec/4, sec/4, 0.1, false, int64(1), 86400*sec, int64(1), 1, 1)
	f.Fuzz(func(t *testing.T, lease, deadline, interval, attempt int64, drift float64, exclusive bool, outage, stop, trip int64, candidates, zones int) {
		req := plan.Requirements{APIOutage: time.Duration(outage), Stop: time.Duration(stop), RoundTrip: time.Duration(trip), Candidates: candidates, Zones: zones}
		timing := election.Timing{
			LeaseDuration: time.Duration(lease), RenewDeadline: time.Duration(deadline), RenewInterval: time.Duration(interval),
			AttemptTimeout: time.Duration(attempt), MaxClockDrift: drift, Exclusive: exclusive,
		}.WithDefaults()
		if timing.Validate() != nil {
			t.Skip("no lawful timing")
		}
		if _, err := req.Plan(); err != nil {
			t.Skip("the requirements are refused")
		}
		checkBounds(t, timing, plan.BoundsOf(timing, req))
	})
}

// checkBounds checks what is true of the bounds of any timing.
func checkBounds(t *testing.T, timing election.Timing, b plan.Bounds) {
	t.Helper()
	for name, bound := range map[string]plan.Bound{
		"Stop": b.Stop, "Kill": b.Kill, "DeadServer": b.DeadServer, "LossInElection": b.LossInElection, "LossInOutage": b.LossInOutage, "Proof": b.Proof, "Recovery": b.Recovery,
	} {
		if mean, worst := bound.Mean.Total(), bound.Worst.Total(); mean < 0 || mean > worst {
			t.Errorf("%+v: %s takes %v on average, %v at most", timing, name, mean, worst)
		}
	}
	if head := b.TakeoverDelay.Total(); head < 0 || head > timing.LeaseDuration {
		t.Errorf("%+v: a takeover delay of %v", timing, head)
	}
	if b.StopLeft.Total() < 0 || b.WritesPerDay < 0 || b.ReadsPerDay < 0 {
		t.Errorf("%+v: %v to stop, %d writes, %d reads", timing, b.StopLeft.Total(), b.WritesPerDay, b.ReadsPerDay)
	}
	if kill := b.Kill.Worst.Total(); kill < timing.LeaseDuration || b.DeadServer.Worst.Total() < kill {
		t.Errorf("%+v: killed %v, with its server %v", timing, kill, b.DeadServer.Worst.Total())
	}
}
