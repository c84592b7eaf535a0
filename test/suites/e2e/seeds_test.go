// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core

package e2e_test

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zonelect/zonelect/test/kit/trial"
)

// seeds runs the migrations of these seeds, such as 1-10 or 3,7, one after the
// other, instead of one for each variant:
//
//	go test -v -count=1 -run TestAMigrationNever/stale-7 ./suites/e2e/ -seeds 7
//
// A seed decides what is done to a migration: whether there is a fault (odd seeds
// have one), which fault, at which moment of which step, and how the phase is
// changed and legacy pods lead again. It does not decide the timing: a seed that
// has failed once may pass the next time.
var seeds = flag.String("seeds", "", "seeds of migrations: 1-10 or 3,7; one for each variant by default")

// oneSeed has the seed for each variant if no seeds are given. One of them
// kills a program, one restarts an apiserver.
var oneSeed = round{"original": 1, "stale": 5, "notready": 2}

// round is the seed of each variant's migration, all of which run at once.
type round map[string]uint64

// rounds returns the requested rounds, in order.
func rounds(t *testing.T) (all []round) {
	t.Helper()
	if *seeds == "" {
		return []round{oneSeed}
	}
	for part := range strings.SplitSeq(*seeds, ",") {
		first, last, _ := strings.Cut(part, "-")
		from, err := strconv.ParseUint(first, 10, 32)
		must(t, err)
		to, err := strconv.ParseUint(cmp.Or(last, first), 10, 32)
		must(t, err)
		for seed := from; seed <= to; seed++ {
			r := round{}
			for _, variant := range lifeVariants {
				r[variant] = seed
			}
			all = append(all, r)
		}
	}
	return all
}

// plan is what a seed decides.
type plan struct {
	seed          uint64
	byHand        bool // the phase is changed by a bare patch, not by package migrate
	throughLegacy bool // legacy pods lead again by phase, before the candidates go
	fault         faultKind
	step          int           // the one with the fault
	delay         time.Duration // from the beginning of the step
	leader        bool          // the leader is killed, if there is one
	victim        int           // else which of the running programs
	zone          string        // the zone whose apiserver is restarted
}

type faultKind string

const (
	noFault faultKind = ""
	kill    faultKind = "kill"
	restart faultKind = "restart"
)

// longestDelay is longer than most steps, so that a fault may hit the next one,
// too. Most delays are much shorter, because a step begins with its change.
const longestDelay = 3 * time.Second

// spread is chosen so that the seeds from 1 to 10 hit most steps.
const spread = 750

func newPlan(variant string, seed uint64) plan {
	of := uint64(slices.Index(lifeVariants, variant))
	r := rand.New(rand.NewPCG(seed, spread+of))
	early := r.Float64()
	p := plan{
		seed: seed, byHand: r.IntN(2) == 0, throughLegacy: r.IntN(2) == 0,
		step: r.IntN(len(script)), delay: time.Duration(early * early * early * float64(longestDelay)),
		leader: r.IntN(3) > 0, victim: r.IntN(100), zone: threeZones[r.IntN(3)],
	}
	switch {
	case seed%2 == 0:
	case (seed/2+of)%2 == 0: // so that each variant has both equally often
		p.fault = kill
	default:
		p.fault = restart
	}
	return p
}

func (p plan) String() string {
	how, back := "package migrate", "by ending the candidates"
	if p.byHand {
		how = "bare patches"
	}
	if p.throughLegacy {
		back = "by phase legacy"
	}
	fault := "no fault"
	switch {
	case p.fault == kill && p.leader:
		fault = "the leader is killed " + p.moment()
	case p.fault == kill:
		fault = "a random program is killed " + p.moment()
	case p.fault == restart:
		fault = fmt.Sprintf("the apiserver of %s is restarted %s", p.zone, p.moment())
	}
	return fmt.Sprintf("seed %d: %s; steps by %s, back %s", p.seed, fault, how, back)
}

// moment says when the fault happens.
func (p plan) moment() string {
	return fmt.Sprintf("%v into %q", p.delay.Round(time.Millisecond), script[p.step].name)
}

// fault is a fault that happened.
type fault struct {
	to, when string    // the pod or the zone; the moment, and in which migration
	leases   bool      // a candidate was killed, which may have held the Lease
	at, over time.Time // over is zero as long as it lasts
}

// faults are those that hit every migration on a bed.
type faults struct {
	one sync.Mutex // held during a fault: a second apiserver at the same time would be another test

	mu  sync.Mutex
	all []fault
}

// begin notes that a fault begins. The caller calls end when it is over.
func (f *faults) begin(to, when string) (end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := len(f.all)
	f.all = append(f.all, fault{to: to, when: when, at: time.Now()})
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.all[i].over = time.Now()
	}
}

// between returns the faults that began before to, and were not over by from.
func (f *faults) between(from, to time.Time) (some []fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.all {
		if one.at.Before(to) && (one.over.IsZero() || one.over.After(from)) {
			some = append(some, one)
		}
	}
	return some
}

func TestTheSeedsOfEachRunHaveBothFaults(t *testing.T) {
	found := map[faultKind]int{}
	for variant, seed := range oneSeed {
		found[newPlan(variant, seed).fault]++
	}
	if len(oneSeed) != len(lifeVariants) || found[kill] == 0 || found[restart] == 0 {
		t.Errorf("the faults are %v, want a kill and a restart", found)
	}
}

// when names the moment for other migrations that the fault hits.
func (r *rollout) when() string { return r.moment() + " of " + r.variant }

// disturb injects the plan's fault into the migration.
func (r *rollout) disturb(t *testing.T) {
	time.Sleep(r.delay)
	switch r.fault {
	case kill:
		r.killOne(t)
	case restart:
		r.outages.one.Lock()
		defer r.outages.one.Unlock()
		began, end := time.Now(), r.outages.begin(r.zone, r.when())
		if err := r.Parts.RestartAPIServer(r.ctx, r.zone); err != nil {
			t.Error(err)
		}
		end()
		t.Logf("the apiserver of %s was away for %v", r.zone, time.Since(began).Round(time.Millisecond))
	}
}

// killOne kills a program and starts it again, as a kubelet does.
func (r *rollout) killOne(t *testing.T) {
	for r.ctx.Err() == nil {
		running := r.running()
		var victim *pod
		if r.leader {
			victim = r.leads(running...)
		}
		if victim == nil && len(running) > 0 {
			victim = running[r.victim%len(running)]
		}
		if victim == nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		killed, again, err := r.crash(victim)
		if err != nil {
			t.Error(err)
		}
		if !killed.IsZero() {
			r.kills = append(r.kills, fault{victim.name, r.when(), victim.kind == trial.Zonelect, killed, again})
			t.Logf("%s was killed", victim.name)
			return
		}
	}
}
