// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/test/testbed"
)

// zones of the testbed.
var zones = []string{"za", "zb", "zc"}

// timings that runs have. Each keeps its term through one lost request, but for
// the last, which the law just allows.
var timings = []election.Timing{
	{LeaseDuration: 4 * time.Second, RenewDeadline: 2500 * time.Millisecond, RenewInterval: 500 * time.Millisecond},
	{LeaseDuration: 6 * time.Second, RenewDeadline: 4 * time.Second, RenewInterval: time.Second},
	{LeaseDuration: 3 * time.Second, RenewDeadline: 1600 * time.Millisecond, RenewInterval: 800 * time.Millisecond},
}

// oneIn is how many runs have the second and the third timing: one in so many.
var oneIn = [...]int{0, 4, 8}

// plan is what happens in a run. It follows from seed, index, and the faults to
// choose from alone.
type plan struct {
	Seed   uint64
	Index  int
	Faults []fault // one, or two
	Timing election.Timing
	Zone   string // where the leaders are at first
	// Calm is how long nothing happens before the first fault, Apart the time
	// from the first to the second, and Lasts how long they last from then on.
	Calm, Apart, Lasts time.Duration
}

// newPlan plans a run. Runs go round: each fault alone, then each pair, in an
// order that the seed decides and that is another in each round.
func newPlan(seed uint64, index int, rounds [][]fault) plan {
	p := plan{Seed: seed, Index: index}
	order := rand.New(rand.NewPCG(seed, uint64(index/len(rounds)))).Perm(len(rounds))
	// Singles come before pairs: an order that is stable in their number.
	slices.SortStableFunc(order, func(a, b int) int { return len(rounds[a]) - len(rounds[b]) })
	p.Faults = rounds[order[index%len(rounds)]]
	dice := p.dice("plan")
	p.Timing = timings[0]
	for i, n := range oneIn {
		if n > 0 && dice.IntN(n) == 0 {
			p.Timing = timings[i]
		}
	}
	p.Zone = zones[dice.IntN(len(zones))]
	p.Calm = 500*time.Millisecond + upTo(dice, time.Second)
	for _, f := range p.Faults {
		p.Lasts = max(p.Lasts, f.lasts(p.Timing, dice))
	}
	if len(p.Faults) > 1 {
		p.Faults = inOrder(dice, p.Faults)
		p.Apart = upTo(dice, p.Timing.LeaseDuration)
	}
	return p
}

// inOrder returns two faults in the order in which they begin: chance, but for
// those that could not be done any more.
func inOrder(dice *rand.Rand, pair []fault) []fault {
	pair = slices.Clone(pair)
	if dice.IntN(2) == 0 {
		slices.Reverse(pair)
	}
	if pair[0].away && pair[1].asks {
		slices.Reverse(pair)
	}
	return pair
}

// timingsOf are the timings under which a group's candidates may lead.
func (p plan) timingsOf(string) []election.Timing { return []election.Timing{p.Timing} }

// dice are chance for one purpose, the same in each run of the plan.
func (p plan) dice(purpose string) *rand.Rand {
	mixed := uint64(p.Index)
	for _, b := range []byte(purpose) {
		mixed = mixed*31 + uint64(b)
	}
	return rand.New(rand.NewPCG(p.Seed, mixed))
}

func upTo(dice *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(dice.Int64N(int64(d))).Round(time.Millisecond)
}

// name is the faults' names, in the order in which faults are listed, not in
// that in which they begin: with it the run can be done again.
func (p plan) name() string { return nameOf(listed(p.Faults)) }

// listed returns faults in the order in which they are listed.
func listed(some []fault) []fault {
	place := func(f fault) int { return slices.IndexFunc(faults(), func(g fault) bool { return g.name == f.name }) }
	return slices.SortedFunc(slices.Values(some), func(a, b fault) int { return place(a) - place(b) })
}

func nameOf(faults []fault) string {
	var names []string
	for _, f := range faults {
		names = append(names, f.name)
	}
	return strings.Join(names, "+")
}

// round returns what one round is made of: each fault alone, and each pair of
// two that can be done together.
func round(all []fault) (rounds [][]fault) {
	for _, f := range all {
		rounds = append(rounds, []fault{f})
	}
	for i, f := range all {
		for _, g := range all[i+1:] {
			rounds = append(rounds, []fault{f, g})
		}
	}
	return rounds
}

// choose returns the round for a flag: names of faults, or of pairs as a+b.
// Empty is all that the network can do.
func choose(names []string, n testbed.Network) (rounds [][]fault, skipped []string, err error) {
	all, skipped := possible(n)
	if len(names) == 0 {
		return round(all), skipped, nil
	}
	for _, name := range names {
		var one []fault
		for part := range strings.SplitSeq(name, "+") {
			i := slices.IndexFunc(all, func(f fault) bool { return f.name == part })
			if i < 0 {
				return nil, skipped, fmt.Errorf("there is no fault %q here: use %s", part, strings.Join(namesOf(all), ", "))
			}
			one = append(one, all[i])
		}
		if len(one) > 2 {
			return nil, skipped, fmt.Errorf("%s: at most two faults go together", name)
		}
		rounds = append(rounds, listed(one))
	}
	return rounds, skipped, nil
}

func namesOf(all []fault) (names []string) {
	for _, f := range all {
		names = append(names, f.name)
	}
	return names
}
