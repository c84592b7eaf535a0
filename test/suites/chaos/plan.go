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
)

// zones of the testbed.
var zones = []string{"za", "zb", "zc"}

// timings are those that runs have. With each of them a term survives one lost
// request, except with the last one, which the validation just allows.
var timings = []election.Timing{
	{LeaseDuration: 4 * time.Second, RenewDeadline: 2500 * time.Millisecond, RenewInterval: 500 * time.Millisecond},
	{LeaseDuration: 6 * time.Second, RenewDeadline: 4 * time.Second, RenewInterval: time.Second},
	{LeaseDuration: 3 * time.Second, RenewDeadline: 1600 * time.Millisecond, RenewInterval: 800 * time.Millisecond},
}

// oneIn is how many runs have the second and the third timing: one in that
// many.
var oneIn = [...]int{0, 4, 8}

// plan is what happens in a run. It depends only on seed, index, and the faults
// to choose from.
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

// newPlan plans a run. Runs go in rounds: each fault alone, then each pair, in
// an order that the seed decides and that differs from round to round.
func newPlan(seed uint64, index int, rounds [][]fault) plan {
	p := plan{Seed: seed, Index: index, Timing: timings[0]}
	order := rand.New(rand.NewPCG(seed, uint64(index/len(rounds)))).Perm(len(rounds))
	// Singles come before pairs, by a sort that keeps the order otherwise.
	slices.SortStableFunc(order, func(a, b int) int { return len(rounds[a]) - len(rounds[b]) })
	p.Faults = rounds[order[index%len(rounds)]]
	dice := p.dice("plan")
	for i, n := range oneIn {
		if n > 0 && dice.IntN(n) == 0 {
			p.Timing = timings[i]
		}
	}
	p.Zone = zones[dice.IntN(len(zones))]
	p.Calm = 100*time.Millisecond + upTo(dice, p.Timing.RenewInterval)
	for _, f := range p.Faults {
		p.Lasts = max(p.Lasts, f.lasts(p.Timing, dice))
	}
	if len(p.Faults) > 1 {
		p.Faults = inOrder(dice, p.Faults)
		p.Apart = upTo(dice, p.Timing.LeaseDuration)
	}
	return p
}

// inOrder returns two faults in the order in which they begin. The order is
// random, unless one of them could not be done after the other.
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

// dice are random numbers for one purpose, the same in each run of the plan.
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
// that in which they begin: the run can be repeated by that name.
func (p plan) name() string { return nameOf(listed(p.Faults)) }

// place is where a fault of that name is in the list of all; -1 if there is none.
func place(name string) int {
	return slices.IndexFunc(faults(), func(f fault) bool { return f.name == name })
}

// listed returns faults in the order in which they are listed.
func listed(some []fault) []fault {
	return slices.SortedFunc(slices.Values(some), func(a, b fault) int { return place(a.name) - place(b.name) })
}

func nameOf(faults []fault) string { return strings.Join(namesOf(faults), "+") }

func namesOf(all []fault) (names []string) {
	for _, f := range all {
		names = append(names, f.name)
	}
	return names
}

// choose returns one round for a flag: names of faults, or of pairs as a+b. Empty
// means each fault alone, and each pair.
func choose(names []string) (rounds [][]fault, err error) {
	all := faults()
	if len(names) == 0 {
		for i, f := range all {
			rounds = append(rounds, []fault{f})
			for _, g := range all[i+1:] {
				rounds = append(rounds, []fault{f, g})
			}
		}
		return rounds, nil
	}
	for _, name := range names {
		var one []fault
		for part := range strings.SplitSeq(name, "+") {
			i := place(part)
			if i < 0 {
				return nil, fmt.Errorf("there is no fault %q: use %s", part, strings.Join(namesOf(all), ", "))
			}
			one = append(one, all[i])
		}
		if len(one) > 2 {
			return nil, fmt.Errorf("%s: at most two faults go together", name)
		}
		rounds = append(rounds, listed(one))
	}
	return rounds, nil
}
