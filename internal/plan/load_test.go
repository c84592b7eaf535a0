// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/plan"
)

func TestAPatientLeaderSurvivesAnOutageOf45Seconds(t *testing.T) {
	for _, trip := range []time.Duration{5 * ms, 50 * ms} {
		if got := plan.BoundsOf(timing.Patient(), plan.Requirements{RoundTrip: trip}).OutageSurvived; got.Total() < 45*s {
			t.Errorf("at round trips of %v it survives %v: %v", trip, got.Total(), got)
		}
	}
}

func TestHeartbeatsCostAWriteForEachProcessInsteadOfEachLock(t *testing.T) {
	for name, test := range map[string]struct {
		timing       election.Timing
		requirements plan.Requirements
		want         plan.Load
	}{
		"one lock":                        {election.Timing{}, plan.Requirements{}, plan.Load{Renewals: 0.5, Heartbeats: 1.5, Takeover: 1}},
		"many locks":                      {election.Timing{}, plan.Requirements{Locks: 1000}, plan.Load{Renewals: 500, Heartbeats: 1.5, Takeover: 334}},
		"with heartbeats":                 {election.Timing{}, plan.Requirements{Locks: 1000, Heartbeat: true}, plan.Load{Renewals: 500, Heartbeats: 1.5, Takeover: 335}},
		"in seconds":                      {timing.Fast(), plan.Requirements{Locks: 1000, Processes: 3, Heartbeat: true}, plan.Load{Renewals: 2000, Heartbeats: 6, Takeover: 335}},
		"more processes than locks":       {timing.Fast(), plan.Requirements{Locks: 2, Processes: 50, Heartbeat: true}, plan.Load{Renewals: 4, Heartbeats: 100, Takeover: 2}},
		"as many as there are candidates": {election.Timing{}, plan.Requirements{Locks: 100, Candidates: 50}, plan.Load{Renewals: 50, Heartbeats: 25, Takeover: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := plan.LoadOf(test.timing, test.requirements); got != test.want {
				t.Errorf("the load is %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestWithHeartbeatsAFailoverTakesARoundTripMoreAndAnOutageIsSurvivedForOneLess(t *testing.T) {
	eachRequirements(300, func(req plan.Requirements) {
		p, err := req.Plan()
		if err != nil {
			return
		}
		req = p.Requirements
		without := plan.BoundsOf(p.Timing, req)
		req.Heartbeat = true
		with := plan.BoundsOf(p.Timing, req)
		for name, d := range map[string]time.Duration{
			"kill":             with.Kill.Worst.Total() - without.Kill.Worst.Total(),
			"dead server":      with.DeadServer.Worst.Total() - without.DeadServer.Worst.Total(),
			"loss in election": with.LossInElection.Worst.Total() - without.LossInElection.Worst.Total(),
			"loss in outage":   with.LossInOutage.Worst.Total() - without.LossInOutage.Worst.Total(),
			"recovery":         with.Recovery.Worst.Total() - without.Recovery.Worst.Total(),
			"outage":           without.OutageSurvived.Total() - with.OutageSurvived.Total(),
		} {
			if d != req.RoundTrip {
				t.Errorf("%s: the difference is %v, a round trip is %v", name, d, req.RoundTrip)
			}
		}
		if with.ElectionSurvived.Total() > without.ElectionSurvived.Total()-req.RoundTrip {
			t.Errorf("with heartbeats an election of %s is survived, without of %s", with.ElectionSurvived, without.ElectionSurvived)
		}
	})
}

func TestAPlanWithHeartbeatsIsExclusiveAndMeetsItsRequirements(t *testing.T) {
	req := plan.Requirements{APIOutage: 1200 * ms, Failover: 5 * s, Stop: 300 * ms, RoundTrip: 10 * ms, Heartbeat: true}
	p, err := req.Plan()
	if err != nil {
		t.Fatal(err)
	}
	if !p.Timing.Exclusive || !p.Requirements.Exclusive {
		t.Errorf("planned is %+v", p.Timing)
	}
	if b := p.Bounds; b.OutageSurvived.Total() < req.APIOutage || b.DeadServer.Worst.Total() > req.Failover || b.StopLeft.Total() < req.Stop {
		t.Errorf("%+v became %+v", req, p.Timing)
	}
}

func TestSecondsHoldsWhatItsCommentSays(t *testing.T) {
	for _, heartbeat := range []bool{false, true} {
		req := plan.Requirements{RoundTrip: 10 * ms, Heartbeat: heartbeat}
		b, usual := plan.BoundsOf(timing.Fast(), req), plan.BoundsOf(election.Timing{}, req)
		if got := b.DeadServer.Worst.Total(); got > 4*s {
			t.Errorf("a failover takes %v", got)
		}
		if ratio := float64(usual.DeadServer.Worst.Total()) / float64(b.DeadServer.Worst.Total()); ratio < 4.5 || ratio > 5.5 {
			t.Errorf("the default takes %.1f times as long", ratio)
		}
		for name, least := range map[string][2]time.Duration{
			"election":         {b.ElectionSurvived.Total(), 1700 * ms},
			"outage":           {b.OutageSurvived.Total(), 1200 * ms},
			"default election": {usual.ElectionSurvived.Total(), 7 * s},
			"default outage":   {usual.OutageSurvived.Total(), 5 * s},
		} {
			if least[0] < least[1] {
				t.Errorf("%s: %v is survived, documented are %v", name, least[0], least[1])
			}
		}
		if got := plan.Warnings(timing.Fast(), req); got != nil {
			t.Errorf("warnings: %q", got)
		}
	}
}

func TestWarningsSayWhatATimingDoesNotSurvive(t *testing.T) {
	for name, test := range map[string]struct {
		timing       election.Timing
		requirements plan.Requirements
		want         []string
	}{
		"the defaults":              {election.Timing{}, plan.Requirements{}, nil},
		"seconds":                   {timing.Fast(), plan.Requirements{}, nil},
		"seconds, 2 s":              {timing.Fast(), plan.Requirements{EtcdElection: 2 * s}, []string{"etcd may end the term when it takes 2s to elect a leader: surely survived is 1.563s"}},
		"the defaults, 2 s":         {election.Timing{}, plan.Requirements{EtcdElection: 2 * s}, nil},
		"the defaults, 10 s":        {election.Timing{}, plan.Requirements{EtcdElection: 10 * s}, []string{"surely survived is 7.15s, RenewDeadline 10s - RenewInterval 2s"}},
		"seconds, a slow disk":      {timing.Fast(), plan.Requirements{RoundTrip: 150 * ms}, []string{"round trips of 150ms are too long: a request on a new connection takes 637.5ms", "surely survived is 0s"}},
		"seconds, a slower disk":    {timing.Fast(), plan.Requirements{RoundTrip: 300 * ms}, []string{"round trips of 300ms are too long", "surely survived is 0s, RenewInterval 500ms - longer request on a new connection 1.088s"}},
		"the defaults, that disk":   {election.Timing{}, plan.Requirements{RoundTrip: 300 * ms}, nil},
		"seconds, slow work":        {timing.Fast(), plan.Requirements{Stop: s}, []string{"work that takes 1s to stop may overlap the next leader's: it has 470ms"}},
		"no time to read":           {election.Timing{LeaseDuration: 15 * s, RenewDeadline: 10 * s, RenewInterval: 2 * s, AttemptTimeout: 8 * s}, plan.Requirements{}, []string{"surely survived is 0s"}},
		"seconds, just fast enough": {timing.Fast(), plan.Requirements{RoundTrip: 100 * ms, EtcdElection: 1300 * ms}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := plan.Warnings(test.timing, test.requirements)
			if len(got) != len(test.want) {
				t.Fatalf("the warnings are %q, want %q", got, test.want)
			}
			for i, want := range test.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("the warning is %q, want %q", got[i], want)
				}
			}
		})
	}
}
