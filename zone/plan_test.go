// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package zone_test

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
	"github.com/zonelect/zonelect/internal/transport"
	"github.com/zonelect/zonelect/zone"
)

const ms, s = time.Millisecond, time.Second

func TestAPlanHoldsWhatWasWishedFor(t *testing.T) {
	for name, test := range map[string]struct {
		wish zone.Wish
		want election.Timing
	}{
		"nothing":        {zone.Wish{}, election.Timing{LeaseDuration: 5 * s, RenewDeadline: 4900 * ms, RenewInterval: 2 * s}},
		"the defaults":   {zone.Wish{APIOutage: 5 * s, Stop: 4800 * ms}, election.Timing{LeaseDuration: 15 * s, RenewDeadline: 10 * s, RenewInterval: 2 * s}},
		"an outage":      {zone.Wish{APIOutage: 30 * s, Failover: 45 * s, Stop: 5 * s}, election.Timing{LeaseDuration: 41 * s, RenewDeadline: 35500 * ms, RenewInterval: 2 * s}},
		"a fast one":     {zone.Wish{APIOutage: 30 * s, Failover: 42500 * ms, Stop: 5 * s}, election.Timing{LeaseDuration: 39 * s, RenewDeadline: 33600 * ms, RenewInterval: 1350 * ms}},
		"slow requests":  {zone.Wish{RoundTrip: s}, election.Timing{LeaseDuration: 14 * s, RenewDeadline: 13800 * ms, RenewInterval: 3600 * ms}},
		"alone":          {zone.Wish{Failover: 2 * s, RoundTrip: 5 * ms, Exclusive: true}, election.Timing{LeaseDuration: s, RenewDeadline: 900 * ms, RenewInterval: 300 * ms}},
		"a bad clock":    {zone.Wish{APIOutage: 30 * s, Stop: 5 * s, MaxClockDrift: 0.5}, election.Timing{LeaseDuration: 80 * s, RenewDeadline: 35 * s, RenewInterval: 2 * s}},
		"a long stop":    {zone.Wish{Stop: 90 * s}, election.Timing{LeaseDuration: 96 * s, RenewDeadline: 5 * s, RenewInterval: 2 * s, StopTimeout: 91 * s}},
		"all of the day": {zone.Wish{APIOutage: 24 * time.Hour, Stop: 24 * time.Hour, RoundTrip: 24 * time.Hour, MaxClockDrift: 0.5}, election.Timing{LeaseDuration: 672*time.Hour + 4*s, RenewDeadline: 312*time.Hour + 2*s, RenewInterval: 72*time.Hour + 600*ms, StopTimeout: 24*time.Hour + s}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := test.wish.Plan()
			if err != nil {
				t.Fatal(err)
			}
			got, want := p.Timing, test.want
			want.MaxClockDrift, want.Exclusive = test.wish.MaxClockDrift, test.wish.Exclusive
			if want = want.WithDefaults(); got != want {
				t.Errorf("planned is %+v, want %+v", got, want)
			}
		})
	}
}

func TestWhateverIsPlannedObeysTheLawAndTheWish(t *testing.T) {
	planned := 0
	eachWish(2000, func(w zone.Wish) {
		p, err := w.Plan()
		if err != nil {
			return
		}
		planned++
		if err := p.Timing.Validate(); err != nil {
			t.Errorf("%+v: %v", w, err)
		}
		b := p.Bounds
		if b.OutageSurvived.Total() < w.APIOutage || b.StopLeft.Total() < w.Stop || w.Failover > 0 && b.DeadServer.Worst.Total() > w.Failover {
			t.Errorf("%+v became %+v, with outage %v, stop %v, failover %v", w, p.Timing, b.OutageSurvived.Total(), b.StopLeft.Total(), b.DeadServer.Worst.Total())
		}
		shorter := p.Timing
		shorter.LeaseDuration -= s
		shorter.RenewDeadline -= b.OutageSurvived.Total() - w.APIOutage
		shorter.StopGrace = w.Stop
		if w.Stop > 0 && shorter.Validate() == nil {
			t.Errorf("%+v became %+v, but %v would do", w, p.Timing, shorter)
		}
		for name, bound := range map[string]zone.Bound{
			"stop": b.Stop, "kill": b.Kill, "dead server": b.DeadServer, "loss in outage": b.LossInOutage, "proof": b.Proof, "recovery": b.Recovery,
		} {
			if mean, worst := bound.Mean.Total(), bound.Worst.Total(); mean <= 0 || mean > worst {
				t.Errorf("%+v: the mean of %s is %v, its worst %v", w, name, mean, worst)
			}
		}
		for _, n := range p.Numbers {
			if n.Name == "" || n.Value < 0 || n.Why == "" {
				t.Errorf("%+v: %+v explains nothing", w, n)
			}
		}
	})
	if planned < 500 {
		t.Errorf("only %d wishes were possible", planned)
	}
}

func eachWish(n int, f func(zone.Wish)) {
	dice := rand.New(rand.NewPCG(1, 2))
	for range n {
		f(wish(dice))
	}
}

func TestWhoAsksForMoreWaitsLonger(t *testing.T) {
	for name, more := range map[string]func(*zone.Wish, time.Duration){
		"outage":     func(w *zone.Wish, d time.Duration) { w.APIOutage += d },
		"stop":       func(w *zone.Wish, d time.Duration) { w.Stop += d },
		"round trip": func(w *zone.Wish, d time.Duration) { w.RoundTrip += d },
		"drift":      func(w *zone.Wish, d time.Duration) { w.MaxClockDrift = 0.05 + 0.1*d.Seconds()/100 },
		"failover":   func(w *zone.Wish, d time.Duration) { w.Failover = max(0, w.Failover-d) },
		"shared":     func(w *zone.Wish, _ time.Duration) { w.Exclusive = false },
	} {
		t.Run(name, func(t *testing.T) {
			dice := rand.New(rand.NewPCG(3, 4))
			eachWish(300, func(w zone.Wish) {
				greedy := w
				more(&greedy, time.Duration(dice.Int64N(int64(20*s))))
				if greedy.Failover == 0 && w.Failover > 0 {
					return // which wishes for less
				}
				before, refused := w.Plan()
				after, err := greedy.Plan()
				if refused != nil && err == nil {
					t.Errorf("%+v is impossible (%v), but %+v is not", w, refused, greedy)
				}
				if w.Failover == 0 && refused == nil && err == nil && after.Timing.LeaseDuration < before.Timing.LeaseDuration {
					t.Errorf("%+v takes %v, but %+v only %v", w, before.Timing.LeaseDuration, greedy, after.Timing.LeaseDuration)
				}
			})
		})
	}
}

var proposal = regexp.MustCompile(`an? (\w+) of at (least|most) ([0-9.a-z]+)`)

func TestARefusalNamesTheInequalityAndWhatWouldBePossible(t *testing.T) {
	refused, kinds := 0, map[string]int{}
	eachWish(2000, func(w zone.Wish) {
		_, err := w.Plan()
		if err == nil {
			return
		}
		refused++
		if !errors.Is(err, zone.ErrImpossible) || !strings.Contains(err.Error(), "Failover "+w.Failover.String()+" >= LeaseDuration") {
			t.Fatalf("%+v: %v", w, err)
		}
		for _, m := range proposal.FindAllStringSubmatch(err.Error(), -1) {
			kinds[m[1]]++
			d, e := time.ParseDuration(m[3])
			if e != nil {
				t.Fatal(e)
			}
			better, beyond := w, w
			switch m[1] {
			case "Failover":
				better.Failover, beyond.Failover = d, d-200*ms
			case "APIOutage":
				better.APIOutage, beyond.APIOutage = d, d+100*ms
			case "Stop":
				better.Stop, beyond.Stop = d, d+100*ms
			}
			if _, err := better.Plan(); err != nil {
				t.Errorf("for %+v is proposed %q, but %v", w, m[0], err)
			}
			if _, err := beyond.Plan(); err == nil {
				t.Errorf("for %+v is proposed %q, but %+v is possible", w, m[0], beyond)
			}
		}
	})
	if refused < 200 || kinds["Failover"] != refused || kinds["APIOutage"] == 0 || kinds["Stop"] == 0 {
		t.Errorf("%d were refused, with proposals %v", refused, kinds)
	}
}

func TestARefusalHasTheNumbers(t *testing.T) {
	_, err := zone.Wish{APIOutage: 30 * s, Failover: 30 * s, Stop: 5 * s}.Plan()
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
		wish zone.Wish
		want []string
	}{
		"all": {
			zone.Wish{APIOutage: -1, Failover: 25 * time.Hour, Stop: -s, RoundTrip: -ms, MaxClockDrift: 1, Candidates: -1, Zones: -1, EtcdElection: -s, Locks: -1, Processes: 10001},
			[]string{"<= APIOutage <= 24h0m0s is broken by -1ns", "<= Failover", "<= Stop", "<= RoundTrip", "MaxClockDrift <= 0.5 is broken by 1", "Candidates <= 10000 is broken by -1", "1 <= Zones", "EtcdElection", "Locks <= 1000000 is broken by -1", "Processes <= 10000 is broken by 10001"},
		},
		"more zones than candidates": {zone.Wish{Candidates: 2, Zones: 3}, []string{"Zones <= Candidates is broken by 3 zones of 2 candidates"}},
		"drift of 1 without percent": {zone.Wish{MaxClockDrift: -0.1}, []string{"0.01 for 1 %"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := test.wish.Plan()
			if !errors.Is(err, zone.ErrImpossible) || p.Numbers != nil {
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
	b := zone.BoundsOf(election.Timing{}, zone.Wish{APIOutage: 30 * s, Stop: s})
	for _, test := range []struct {
		name string
		sum  zone.Sum
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
		{"head start", b.HeadStart, "4.4s: 2 x step between zones 2s + 2 x slot between candidates 200ms"},
	} {
		if got := test.sum.Total().String() + ": " + test.sum.String(); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
	if b.WritesPerDay != 43200 || b.ReadsPerDay != 0 {
		t.Errorf("%d writes and %d reads a day", b.WritesPerDay, b.ReadsPerDay)
	}
	if many := zone.BoundsOf(election.Timing{}, zone.Wish{Candidates: 1000}).HeadStart.Total(); many != 15*s {
		t.Errorf("a thousand candidates wait for %v", many)
	}
}

func TestNoCandidateIsLeftBehindForLongerThanTheBound(t *testing.T) {
	dice := rand.New(rand.NewPCG(7, 8))
	longest := 0.0
	for range 2000 {
		w := zone.Wish{Candidates: 1 + dice.IntN(30)}
		w.Zones = 1 + dice.IntN(min(5, w.Candidates))
		var names []string
		for i := range w.Candidates {
			names = append(names, fmt.Sprintf("c%d@z%d", i, i%w.Zones))
		}
		all := peers(names...)
		order := zone.Order{Preferred: []string{"z0", "z1", "z2", "z3", "z4"}[:dice.IntN(w.Zones+1)]}
		before := all[dice.IntN(len(all))]
		bound := zone.BoundsOf(order.Timing, w).HeadStart.Total()
		for _, p := range all {
			takeover := election.Takeover{Cause: status.CauseExpired, Previous: before.Identity, PreviousZone: before.Zone, Candidate: p.Candidate, Peers: all}
			head := order.HeadStart(takeover)
			if p.Identity == before.Identity {
				continue
			}
			if head > bound {
				t.Fatalf("%s waits %v, the bound is %v: %+v for %+v", p.Identity, head, bound, takeover, w)
			}
			longest = max(longest, float64(head)/float64(bound))
		}
	}
	if longest < 0.8 {
		t.Errorf("the longest wait was only %.0f %% of the bound", longest*100)
	}
}

func TestDialsAreBoundedAsTheTransportBoundsThem(t *testing.T) {
	eachWish(200, func(w zone.Wish) {
		p, err := w.Plan()
		if err != nil {
			return
		}
		o := transport.Options{AttemptTimeout: p.Timing.AttemptTimeout}.WithDefaults()
		if interval := number(p, "DialInterval"); interval != o.DialInterval {
			t.Errorf("planned are dials every %v, the transport has %+v", interval, o)
		}
	})
}

// number is one of the numbers that a plan explains.
func number(p zone.Plan, name string) time.Duration {
	for _, n := range p.Numbers {
		if n.Name == name {
			return n.Value
		}
	}
	panic("the plan has no " + name)
}
