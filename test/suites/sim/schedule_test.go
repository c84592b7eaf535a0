// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// fault is what a step does.
type fault string

const (
	// To one process, for a while.
	cut     fault = "cut"          // nothing gets through, either way
	oneWay  fault = "one-way"      // writes arrive, no answer and no event comes back
	mute    fault = "mute"         // watches fall silent permanently, and nothing ends them
	lose    fault = "lose-answers" // writes land, their answers do not come back
	slow    fault = "slow"         // each way takes that long
	refuse  fault = "refuse"       // the API answers it with errors
	pause   fault = "pause"        // like cut, and what it was about to write is sent at the end
	pretend fault = "pretend"      // what is before the server acknowledges its updates and stores none
	freeze  fault = "freeze"       // each of its goroutines stops at its next step
	sicken  fault = "sicken"       // its health check finds it unfit to lead

	// To one process, once.
	crash   fault = "crash"   // and another process starts after a while
	restart fault = "restart" // in good order
	resign  fault = "resign"

	// To all, for a while.
	outage fault = "outage" // the API answers nobody

	// To the watch cache of one API server, for a while.
	stall  fault = "stand-still" // it shows nothing new
	trail  fault = "lag"         // it shows what is new that much later
	revert fault = "go-back"     // another one begins with an older state and no history, and stands still

	// To the lock, once.
	remove  fault = "delete"   // somebody deletes the record
	hide    fault = "hide"     // and again right after it is recreated, once or twice
	empty   fault = "clear"    // somebody removes the holder's name
	garble  fault = "garble"   // somebody removes the durations and times
	compact fault = "compact"  // all watches end, and their history is gone
	putBack fault = "put-back" // somebody puts the record of the term before over it
	meddle  fault = "tamper"   // one of these or the next two, while the holder is cut off: see tamper
	forge   fault = "forge"    // somebody empties it as client-go does to release it
	bare    fault = "bare"     // somebody removes the durations, too
	ask     fault = "ask"      // a request for a handover, to the first that comes or to one by name, is added to it
	empties fault = "empty"    // a zone, or none, is to be evacuated

	// To all candidates, one after the other.
	retime fault = "retime" // a rollout replaces them by ones of another timing, or of several others

	// To a migration, once.
	upgrade   fault = "upgrade"   // the pod in a seat is replaced by a candidate
	downgrade fault = "downgrade" // or by a legacy program
	darken    fault = "darken"    // its node is cut off and not ready, for a while
	phase     fault = "phase"     // another phase is set
	unshield  fault = "unshield"  // somebody deletes the ConfigMap
	strip     fault = "strip"     // or removes what marks it as a shield
	sweep     fault = "sweep"     // all candidates' pods go, and the next ones come a while later
)

// leaderSeat is the seat of the process that leads when the step comes.
const leaderSeat = -1

// step is one thing that happens.
type step struct {
	at     time.Duration // from the start
	fault  fault
	seat   int
	lasts  time.Duration
	degree time.Duration // of a slow way; else a number to choose by
}

func (s step) String() string {
	seat := fmt.Sprint("seat ", s.seat)
	if s.seat == leaderSeat {
		seat = "the leader's seat"
	}
	return fmt.Sprintf("%10.3fs %-12s %s, for %v, degree %v", s.at.Seconds(), s.fault, seat, s.lasts, s.degree)
}

// schedule is everything that decides a run: two runs of one schedule differ
// only in the order of what happens at the same instant, and in jitter; with
// the command ordered they do not differ.
type schedule struct {
	population *population
	seed       uint64
	order      uint64
	mix        mix
	seats      int
	steps      []step
	kept       []int // the numbers of the steps that are kept from the seed's
}

// schedule returns the one that a seed gives.
func (p *population) schedule(seed uint64) schedule {
	dice := rand.New(rand.NewPCG(seed, 1))
	s := schedule{population: p, seed: seed, order: *order, mix: p.mixes[dice.IntN(len(p.mixes))], seats: p.seats}
	lease := s.mix.lease()
	at := time.Duration(0)
	for i := range p.steps {
		at += some(dice, (lease+s.mix.least())/2)
		next := step{at: at, fault: p.faults[dice.IntN(len(p.faults))], seat: dice.IntN(s.seats), lasts: some(dice, lease)}
		if dice.IntN(3) > 0 {
			next.seat = leaderSeat
		}
		if dice.IntN(4) == 0 {
			next.lasts *= 3
		}
		next.degree = some(dice, s.mix.attempt())
		s.steps = append(s.steps, next)
		s.kept = append(s.kept, i)
	}
	return s
}

// some returns a duration below most, in milliseconds.
func some(dice *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(dice.Int64N(int64(most/time.Millisecond))) * time.Millisecond
}

// only returns s with the steps of these numbers.
func (s schedule) only(kept []int) schedule {
	var steps []step
	for i, n := range s.kept {
		if slices.Contains(kept, n) {
			steps = append(steps, s.steps[i])
		}
	}
	s.steps, s.kept = steps, kept
	return s
}

func (s schedule) String() string {
	text := &strings.Builder{}
	fmt.Fprintf(text, "%s, seed %d, %v\n", s.population.name, s.seed, s.mix)
	for i, step := range s.steps {
		fmt.Fprintf(text, "%4d %v\n", s.kept[i], step)
	}
	return text.String()
}

// shrink drops steps of a failing schedule for as long as it still fails.
func shrink(s schedule, fails func(schedule) bool) schedule {
	for chunk := (len(s.kept) + 1) / 2; chunk > 0; chunk /= 2 {
		for from := 0; from < len(s.kept); {
			rest := slices.Delete(slices.Clone(s.kept), from, min(from+chunk, len(s.kept)))
			if less := s.only(rest); fails(less) {
				s = less
				continue
			}
			from += chunk
		}
	}
	return s
}
