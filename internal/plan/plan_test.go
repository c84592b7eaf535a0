// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/internal/plan"
	"github.com/zonelect/zonelect/zone"
)

const ms, s = time.Millisecond, time.Second

func TestAPlanMeetsItsRequirementsWithTheShortestLease(t *testing.T) {
	for name, test := range map[string]struct {
		requirements plan.Requirements
		want         election.Timing
	}{
		"nothing":        {plan.Requirements{}, election.Timing{LeaseDuration: 5 * s, RenewDeadline: 4900 * ms, RenewInterval: 2 * s}},
		"the defaults":   {plan.Requirements{APIOutage: 5 * s, Stop: 4800 * ms}, election.Timing{LeaseDuration: 15 * s, RenewDeadline: 10 * s, RenewInterval: 2 * s}},
		"an outage":      {plan.Requirements{APIOutage: 30 * s, Failover: 45 * s, Stop: 5 * s}, election.Timing{LeaseDuration: 41 * s, RenewDeadline: 35500 * ms, RenewInterval: 2 * s}},
		"a fast one":     {plan.Requirements{APIOutage: 30 * s, Failover: 42500 * ms, Stop: 5 * s}, election.Timing{LeaseDuration: 39 * s, RenewDeadline: 33600 * ms, RenewInterval: 1350 * ms}},
		"slow requests":  {plan.Requirements{RoundTrip: s}, election.Timing{LeaseDuration: 14 * s, RenewDeadline: 13800 * ms, RenewInterval: 3600 * ms}},
		"alone":          {plan.Requirements{Failover: 2 * s, RoundTrip: 5 * ms, Exclusive: true}, election.Timing{LeaseDuration: s, RenewDeadline: 900 * ms, RenewInterval: 300 * ms}},
		"a bad clock":    {plan.Requirements{APIOutage: 30 * s, Stop: 5 * s, MaxClockDrift: 0.5}, election.Timing{LeaseDuration: 80 * s, RenewDeadline: 35 * s, RenewInterval: 2 * s}},
		"a long stop":    {plan.Requirements{Stop: 90 * s}, election.Timing{LeaseDuration: 96 * s, RenewDeadline: 5 * s, RenewInterval: 2 * s, StopTimeout: 91 * s}},
		"all of the day": {plan.Requirements{APIOutage: 24 * time.Hour, Stop: 24 * time.Hour, RoundTrip: 24 * time.Hour, MaxClockDrift: 0.5}, election.Timing{LeaseDuration: 672*time.Hour + 4*s, RenewDeadline: 312*time.Hour + 2*s, RenewInterval: 72*time.Hour + 600*ms, StopTimeout: 24*time.Hour + s}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := test.requirements.Plan()
			if err != nil {
				t.Fatal(err)
			}
			got, want := p.Timing, test.want
			want.MaxClockDrift, want.Exclusive = test.requirements.MaxClockDrift, test.requirements.Exclusive
			if want = want.WithDefaults(); got != want {
				t.Errorf("planned is %+v, want %+v", got, want)
			}
		})
	}
}

func TestEveryPlanIsValidAndMeetsItsRequirements(t *testing.T) {
	planned := 0
	eachRequirements(2000, func(req plan.Requirements) {
		p, err := req.Plan()
		if err != nil {
			return
		}
		planned++
		if err := p.Timing.Validate(); err != nil {
			t.Errorf("%+v: %v", req, err)
		}
		b := p.Bounds
		if b.OutageSurvived.Total() < req.APIOutage || b.StopLeft.Total() < req.Stop || req.Failover > 0 && b.DeadServer.Worst.Total() > req.Failover {
			t.Errorf("%+v became %+v, with outage %v, stop %v, failover %v", req, p.Timing, b.OutageSurvived.Total(), b.StopLeft.Total(), b.DeadServer.Worst.Total())
		}
		shorter := p.Timing
		shorter.LeaseDuration -= s
		shorter.RenewDeadline -= b.OutageSurvived.Total() - req.APIOutage
		shorter.StopGrace = req.Stop
		if req.Stop > 0 && shorter.Validate() == nil {
			t.Errorf("%+v became %+v, but %v would do", req, p.Timing, shorter)
		}
		for name, bound := range map[string]plan.Bound{
			"stop": b.Stop, "kill": b.Kill, "dead server": b.DeadServer, "loss in outage": b.LossInOutage, "proof": b.Proof, "recovery": b.Recovery,
		} {
			if mean, worst := bound.Mean.Total(), bound.Worst.Total(); mean <= 0 || mean > worst {
				t.Errorf("%+v: the mean of %s is %v, its worst %v", req, name, mean, worst)
			}
		}
		for _, n := range p.Settings {
			if n.Name == "" || n.Value < 0 || n.Why == "" {
				t.Errorf("%+v: %+v explains nothing", req, n)
			}
		}
	})
	if planned < 500 {
		t.Errorf("only %d of the requirements were possible", planned)
	}
}

func eachRequirements(n int, f func(plan.Requirements)) {
	dice := rand.New(rand.NewPCG(1, 2))
	for range n {
		f(randomRequirements(dice))
	}
}

func TestWhoAsksForMoreWaitsLonger(t *testing.T) {
	for name, more := range map[string]func(*plan.Requirements, time.Duration){
		"outage":     func(req *plan.Requirements, d time.Duration) { req.APIOutage += d },
		"stop":       func(req *plan.Requirements, d time.Duration) { req.Stop += d },
		"round trip": func(req *plan.Requirements, d time.Duration) { req.RoundTrip += d },
		"drift":      func(req *plan.Requirements, d time.Duration) { req.MaxClockDrift = 0.05 + 0.1*d.Seconds()/100 },
		"failover":   func(req *plan.Requirements, d time.Duration) { req.Failover = max(0, req.Failover-d) },
		"shared":     func(req *plan.Requirements, _ time.Duration) { req.Exclusive = false },
	} {
		t.Run(name, func(t *testing.T) {
			dice := rand.New(rand.NewPCG(3, 4))
			eachRequirements(300, func(req plan.Requirements) {
				greedy := req
				more(&greedy, time.Duration(dice.Int64N(int64(20*s))))
				if greedy.Failover == 0 && req.Failover > 0 {
					return // which asks for less
				}
				before, refused := req.Plan()
				after, err := greedy.Plan()
				if refused != nil && err == nil {
					t.Errorf("%+v is impossible (%v), but %+v is not", req, refused, greedy)
				}
				if req.Failover == 0 && refused == nil && err == nil && after.Timing.LeaseDuration < before.Timing.LeaseDuration {
					t.Errorf("%+v takes %v, but %+v only %v", req, before.Timing.LeaseDuration, greedy, after.Timing.LeaseDuration)
				}
			})
		})
	}
}

var proposal = regexp.MustCompile(`an? (\w+) of at (least|most) ([0-9.a-z]+)`)

func TestARefusalNamesTheInequalityAndWhatWouldBePossible(t *testing.T) {
	refused, kinds := 0, map[string]int{}
	eachRequirements(2000, func(req plan.Requirements) {
		_, err := req.Plan()
		if err == nil {
			return
		}
		refused++
		if !errors.Is(err, plan.ErrImpossible) || !strings.Contains(err.Error(), "Failover "+req.Failover.String()+" >= LeaseDuration") {
			t.Fatalf("%+v: %v", req, err)
		}
		for _, m := range proposal.FindAllStringSubmatch(err.Error(), -1) {
			kinds[m[1]]++
			d, e := time.ParseDuration(m[3])
			if e != nil {
				t.Fatal(e)
			}
			better, beyond := req, req
			switch m[1] {
			case "Failover":
				better.Failover, beyond.Failover = d, d-200*ms
			case "APIOutage":
				better.APIOutage, beyond.APIOutage = d, d+100*ms
			case "Stop":
				better.Stop, beyond.Stop = d, d+100*ms
			}
			if _, err := better.Plan(); err != nil {
				t.Errorf("for %+v is proposed %q, but %v", req, m[0], err)
			}
			if _, err := beyond.Plan(); err == nil {
				t.Errorf("for %+v is proposed %q, but %+v is possible", req, m[0], beyond)
			}
		}
	})
	if refused < 200 || kinds["Failover"] != refused || kinds["APIOutage"] == 0 || kinds["Stop"] == 0 {
		t.Errorf("%d were refused, with proposals %v", refused, kinds)
	}
}

func TestARefusalHasTheNumbers(t *testing.T) {
	_, err := plan.Requirements{APIOutage: 30 * s, Failover: 30 * s, Stop: 5 * s}.Plan()
	want := "impossible: Failover 30s >= LeaseDuration 39s + clock drift of 1 % 390ms + 7 x RoundTrip 50ms + rest of the silence until a follower asks 300ms + 6 x lost dial 150ms is broken, for that is 40.94s. " +
		"LeaseDuration must hold RenewDeadline + Stop 5s + clock drift of 1 % 390ms + second shared with client-go 1s, " +
		"and RenewDeadline must hold APIOutage 30s + RenewInterval 600ms + request that hangs 600ms + 6 x RoundTrip 50ms + 3 x lost dial 150ms. " +
		"Possible is a Failover of at least 41s, or an APIOutage of at most 19.7s"
	if err == nil || err.Error() != want {
		t.Errorf("the error is\n%v\nwant\n%s", err, want)
	}
}

func TestNonsenseIsRefusedAllAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		requirements plan.Requirements
		want         []string
	}{
		"all": {
			plan.Requirements{APIOutage: -1, Failover: 25 * time.Hour, Stop: -s, RoundTrip: -ms, MaxClockDrift: 1, Candidates: -1, Zones: -1, EtcdElection: -s, Locks: -1, Processes: 10001},
			[]string{"<= APIOutage <= 24h0m0s is broken by -1ns", "<= Failover", "<= Stop", "<= RoundTrip", "MaxClockDrift <= 0.5 is broken by 1", "Candidates <= 10000 is broken by -1", "1 <= Zones", "EtcdElection", "Locks <= 1000000 is broken by -1", "Processes <= 10000 is broken by 10001"},
		},
		"more zones than candidates": {plan.Requirements{Candidates: 2, Zones: 3}, []string{"Zones <= Candidates is broken by 3 zones of 2 candidates"}},
		"drift of 1 without percent": {plan.Requirements{MaxClockDrift: -0.1}, []string{"0.01 for 1 %"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := test.requirements.Plan()
			if !errors.Is(err, plan.ErrImpossible) || p.Settings != nil {
				t.Fatalf("%v", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q: %v", want, err)
				}
			}
		})
	}
}

func TestTheBoundsOfTheDefaults(t *testing.T) {
	b := plan.BoundsOf(election.Timing{}, plan.Requirements{APIOutage: 30 * s, Stop: s})
	for _, test := range []struct {
		name string
		sum  plan.Sum
		want string
	}{
		{"stop", b.Stop.Worst, "1.25s: Stop 1s + 5 x RoundTrip 50ms"},
		{"mean kill", b.Kill.Mean, "14.1s: LeaseDuration 15s - half a RenewInterval 1s + 2 x RoundTrip 50ms"},
		{"kill", b.Kill.Worst, "15.35s: LeaseDuration 15s + clock drift of 1 % 150ms + 4 x RoundTrip 50ms"},
		{"dead server", b.DeadServer.Worst, "17.7s: LeaseDuration 15s + clock drift of 1 % 150ms + 7 x RoundTrip 50ms + rest of the silence until a follower asks 1s + 6 x lost dial 200ms"},
		{"in an outage", b.LossInOutage.Worst, "51.65s: APIOutage 30s + request that hangs 2s + longest pause after it 3s + LeaseDuration 15s + clock drift of 1 % 150ms + 6 x RoundTrip 50ms + 6 x lost dial 200ms"},
		{"outage survived", b.OutageSurvived, "5.1s: RenewDeadline 10s - RenewInterval 2s - request that hangs 2s - 6 x RoundTrip 50ms - 3 x lost dial 200ms"},
		{"dead server in an election", b.LossInElection.Worst, "18.7s: LeaseDuration 15s + clock drift of 1 % 150ms + 7 x RoundTrip 50ms + rest of the silence until a follower asks 1s + 6 x lost dial 200ms + EtcdElection 1s"},
		{"election survived", b.ElectionSurvived, "7.15s: RenewDeadline 10s - RenewInterval 2s - 5 x RoundTrip 50ms - 3 x lost dial 200ms"},
		{"time to stop", b.StopLeft, "4.85s: LeaseDuration 15s - RenewDeadline 10s - clock drift of 1 % 150ms"},
		{"takeover delay", b.TakeoverDelay, "4.4s: 2 x step between zones 2s + 2 x slot between candidates 200ms"},
	} {
		if got := test.sum.Total().String() + ": " + test.sum.String(); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
	if b.WritesPerDay != 43200 || b.ReadsPerDay != 0 {
		t.Errorf("%d writes and %d reads a day", b.WritesPerDay, b.ReadsPerDay)
	}
	if many := plan.BoundsOf(election.Timing{}, plan.Requirements{Candidates: 1000}).TakeoverDelay.Total(); many != 15*s {
		t.Errorf("a thousand candidates wait for %v", many)
	}
}

func TestNoCandidateIsLeftBehindForLongerThanTheBound(t *testing.T) {
	dice := rand.New(rand.NewPCG(7, 8))
	longest := 0.0
	for range 2000 {
		req := plan.Requirements{Candidates: 1 + dice.IntN(30)}
		req.Zones = 1 + dice.IntN(min(5, req.Candidates))
		var names []string
		for i := range req.Candidates {
			names = append(names, fmt.Sprintf("c%d@z%d", i, i%req.Zones))
		}
		all := peers(names...)
		order := zone.Order{Preferred: []string{"z0", "z1", "z2", "z3", "z4"}[:dice.IntN(req.Zones+1)]}
		before := all[dice.IntN(len(all))]
		bound := plan.BoundsOf(order.Timing, req).TakeoverDelay.Total()
		for _, p := range all {
			takeover := election.Takeover{Cause: status.CauseExpired, Previous: before.Identity, PreviousZone: before.Zone, Candidate: p.Candidate, Peers: all}
			head := order.TakeoverDelay(takeover)
			if p.Identity == before.Identity {
				continue
			}
			if head > bound {
				t.Fatalf("%s waits %v, the bound is %v: %+v for %+v", p.Identity, head, bound, takeover, req)
			}
			longest = max(longest, float64(head)/float64(bound))
		}
	}
	if longest < 0.8 {
		t.Errorf("the longest wait was only %.0f %% of the bound", longest*100)
	}
}

// setting is the value of one of a plan's settings.
func setting(p plan.Plan, name string) time.Duration {
	for _, setting := range p.Settings {
		if setting.Name == name {
			return setting.Value
		}
	}
	panic("the plan has no " + name)
}
