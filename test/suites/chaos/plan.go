// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/test/kit/testbed"
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

// Some runs have two timings side by side, as in a rollout from one to the
// other: each candidate has its own, and one that is restarted gets the other.
// twice is for candidates beside the first of timings. rollouts are those that
// people do, which take a minute.
var (
	twice    = election.Timing{LeaseDuration: 8 * time.Second, RenewDeadline: 5 * time.Second, RenewInterval: time.Second}
	rollouts = []election.Timing{
		{LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RenewInterval: 2 * time.Second},
		{LeaseDuration: 30 * time.Second, RenewDeadline: 20 * time.Second, RenewInterval: 5 * time.Second},
	}
)

// How many runs have two timings, or those of rollouts, or a candidate of
// client-go's among zonelect's: one in that many.
const (
	oneInMixed   = 2
	oneInRollout = 40
	oneInPeers   = 4
)

// plan is what happens in a run. It depends only on seed, index, and the faults
// to choose from.
type plan struct {
	Seed   uint64
	Index  int
	Faults []fault // one, or two
	Timing election.Timing
	Mix    []election.Timing // the timings of its candidates, if they have two
	Peer   string            // the zone of client-go's candidate among zonelect's, if there is one
	Zone   string            // where the leaders are at first
	// Calm is how long nothing happens before the first fault, Apart the time
	// from the first to the second, and Lasts how long they last from then on.
	Calm, Apart, Lasts time.Duration
	// Again: the run is a repetition of one that failed.
	Again bool
	// Unguarded: the first leader on a Lease is a zonelect without its guard.
	Unguarded bool
}

// newPlan plans a run. Runs go in rounds: each fault alone, then each pair, in
// an order that the seed decides and that differs from round to round.
func newPlan(seed uint64, index int, rounds [][]fault) plan {
	p := plan{Seed: seed, Index: index}
	order := rand.New(rand.NewPCG(seed, uint64(index/len(rounds)))).Perm(len(rounds))
	// Singles come before pairs, by a sort that keeps the order otherwise.
	slices.SortStableFunc(order, func(a, b int) int { return len(rounds[a]) - len(rounds[b]) })
	p.Faults = rounds[order[index%len(rounds)]]
	dice := p.dice("plan")
	p.Timing = timings[0]
	for i, n := range oneIn {
		if n > 0 && dice.IntN(n) == 0 {
			p.Timing = timings[i]
		}
	}
	p.Mix, p.Peer = p.mix(), p.peer()
	return p.timed()
}

// timed plans what follows from the timings.
func (p plan) timed() plan {
	dice := p.dice("plan")
	for _, n := range oneIn {
		if n > 0 {
			dice.IntN(n) // this draw has chosen the timing
		}
	}
	t := p.longest()
	p.Zone = zones[dice.IntN(len(zones))]
	p.Calm = 100*time.Millisecond + upTo(dice, t.RenewInterval)
	p.Lasts, p.Faults = 0, listed(p.Faults)
	for _, f := range p.Faults {
		p.Lasts = max(p.Lasts, f.lasts(t, dice))
	}
	if len(p.Faults) > 1 {
		p.Faults = inOrder(dice, p.Faults)
		p.Apart = upTo(dice, t.LeaseDuration)
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

// mix is two timings, or none.
func (p plan) mix() []election.Timing {
	dice := p.dice("timings")
	switch {
	case dice.IntN(oneInRollout) == 0:
		return rollouts
	case dice.IntN(oneInMixed) > 0:
		return nil
	case p.Timing == timings[0]:
		return []election.Timing{p.Timing, twice}
	}
	return []election.Timing{p.Timing, timings[0]}
}

// peer is the zone of client-go's candidate among zonelect's, if there is one.
func (p plan) peer() string {
	dice := p.dice("peer")
	if dice.IntN(oneInPeers) > 0 {
		return ""
	}
	return zones[dice.IntN(len(zones))]
}

// timingOf is the timing of the n-th candidate of a group in a zone, counted
// from 0.
func (p plan) timingOf(group, zone string, n int) election.Timing {
	if len(p.Mix) == 0 {
		return p.Timing
	}
	return p.Mix[(p.dice("timing of "+group+zone).IntN(len(p.Mix))+n)%len(p.Mix)]
}

// longest is the timing that takes the longest.
func (p plan) longest() election.Timing {
	return slices.MaxFunc(append([]election.Timing{p.Timing}, p.Mix...), func(a, b election.Timing) int { return cmp.Compare(a.LeaseDuration, b.LeaseDuration) })
}

// timingsOf are the timings for which bounds are needed: that of each candidate,
// and where there are two, that of a candidate that waits for the other's lease.
func (p plan) timingsOf() []election.Timing {
	if len(p.Mix) == 0 {
		return []election.Timing{p.Timing}
	}
	return append(slices.Clone(p.Mix), longer(p.Mix[0], p.Mix[1]))
}

// longer is the timing of a candidate that waits for another's lease: at worst it
// has the longer lease to wait for, and the longer pauses.
func longer(a, b election.Timing) election.Timing {
	return election.Timing{
		LeaseDuration: max(a.LeaseDuration, b.LeaseDuration), RenewDeadline: max(a.RenewDeadline, b.RenewDeadline), RenewInterval: max(a.RenewInterval, b.RenewInterval),
	}
}

// timing names the timings, in the words of the ledger.
func (p plan) timing() string {
	if len(p.Mix) == 0 {
		return timingName(p.Timing)
	}
	return timingName(p.Mix[0]) + "+" + timingName(p.Mix[1])
}

// again is the plan for repeating a run, whatever later plans draw for it: with
// the timings and the candidates that its line names.
func again(r result) (plan, error) {
	all, _, err := choose([]string{r.Faults}, testbed.Namespaces)
	if err != nil {
		return plan{}, err
	}
	p := newPlan(r.Seed, r.Run, all)
	known := slices.Concat(timings, rollouts, []election.Timing{twice})
	var mix []election.Timing
	for name := range strings.SplitSeq(r.Timing, "+") {
		i := slices.IndexFunc(known, func(t election.Timing) bool { return timingName(t) == name })
		if i < 0 {
			return plan{}, fmt.Errorf("run %d of seed %d had the timing %s, which no run has any more", r.Run, r.Seed, name)
		}
		mix = append(mix, known[i])
	}
	if p.timing() != r.Timing {
		p.Timing, p.Mix = mix[0], mix
		if len(mix) == 1 {
			p.Mix = nil
		}
		p = p.timed()
	}
	if _, mixed := r.Groups[onMixed]; !mixed {
		p.Peer = ""
	}
	p.Again = true
	return p, nil
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

// round returns the contents of one round: each fault alone, and each pair of
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
// Empty means everything that the network supports.
func choose(names []string, n testbed.NetworkKind) (rounds [][]fault, skipped []string, err error) {
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
