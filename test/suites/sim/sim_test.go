// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	oneSeed   = flag.Uint64("seed", 0, "play the schedule of this seed alone; with -v all that happens is told")
	steps     = flag.String("steps", "", "with -seed: the numbers of the steps to play, such as 3,7,12; all by default")
	minutes   = flag.Float64("minutes", 0, "how long to go on with each population, at least")
	firstSeed = flag.Uint64("first-seed", 1, "the seed to begin with")
	order     = flag.Uint64("order", 0, "with the command ordered: which order of what happens at the same moment")
	orders    = flag.Uint64("orders", 1, "with -seed: how many orders to play it in, up to the first that fails")
)

// quotas are how many failovers a run makes.
var quotas = map[*population]int{inMemory: 100_000, onLease: 3_300, mixed: 1_000, behindShield: 350, twins: 200, inPhases: 150}

var populations = []*population{inMemory, onLease, mixed, behindShield, twins, inPhases}

func TestNoScheduleMakesTwoLeaders(t *testing.T) {
	for _, p := range populations {
		t.Run(p.name, func(t *testing.T) {
			warm(t, p)
			if *oneSeed != 0 {
				replay(t, p)
				return
			}
			quota := quotas[p]
			if testing.Short() {
				quota /= 20
			}
			search(t, p, quota)
		})
	}
}

// warm plays schedules that are not judged, so that nothing happens for the
// first time in those that are: encoders know the types, and defaults are made.
func warm(t *testing.T, p *population) {
	if ordered {
		play(t, p.schedule(0), quiet)
	}
}

// replay plays one schedule, or some steps of it, in one order or many.
func replay(t *testing.T, p *population) {
	s := p.schedule(*oneSeed)
	if *steps != "" {
		var kept []int
		if err := json.Unmarshal([]byte("["+strings.TrimPrefix(*steps, "none")+"]"), &kept); err != nil {
			t.Fatal(err)
		}
		s = s.only(kept)
	}
	t.Log(s)
	if *orders > 1 {
		look(t, s)
		return
	}
	r := play(t, s, t.Logf)
	for _, fault := range r.faults {
		t.Error(fault)
	}
	t.Logf("%d failovers in %v", r.failovers, r.virtual)
}

// look plays a schedule in many orders, until one fails.
func look(t *testing.T, s schedule) {
	for range *orders {
		if r := play(t, s, quiet); len(r.faults) > 0 {
			report(t, s, r, r.failovers)
			return
		}
		s.order++
	}
}

func quiet(string, ...any) {}

// search plays schedules until that many failovers have happened, or one fails.
func search(t *testing.T, p *population, quota int) {
	defer debug.SetGCPercent(debug.SetGCPercent(1000)) // there is much garbage, and little else
	start := time.Now()
	until := start.Add(time.Duration(*minutes * float64(time.Minute)))
	var mu sync.Mutex
	sum, seed := result{overlaps: map[string]int{}}, *firstSeed
	next := func() (s schedule, more bool) {
		mu.Lock()
		defer mu.Unlock()
		if len(sum.faults) > 0 || sum.failovers >= quota && !time.Now().Before(until) {
			return s, false
		}
		s = p.schedule(seed)
		seed++
		return s, true
	}
	add := func(t *testing.T, s schedule, r result) {
		mu.Lock()
		defer mu.Unlock()
		sum.failovers += r.failovers
		sum.virtual += r.virtual
		for why, n := range r.overlaps {
			sum.overlaps[why] += n
		}
		if len(sum.faults) == 0 && len(r.faults) > 0 {
			report(t, s, r, sum.failovers)
		}
		sum.faults = append(sum.faults, r.faults...)
	}
	t.Run("workers", func(t *testing.T) {
		for n := range runtime.GOMAXPROCS(0) {
			t.Run(strconv.Itoa(n), func(t *testing.T) {
				t.Parallel()
				for s, more := next(); more; s, more = next() {
					add(t, s, play(t, s, quiet))
				}
			})
		}
	})
	t.Logf("%d schedules from seed %d on, %d failovers in %.0f hours, which took %v; excused overlaps of other programs: %v",
		seed-*firstSeed, *firstSeed, sum.failovers, sum.virtual.Hours(), time.Since(start).Round(time.Second), sum.overlaps)
}

// report reports a schedule that failed, as small as it gets.
func report(t *testing.T, s schedule, r result, sofar int) {
	t.Errorf("after %d failovers: %s", sofar, strings.Join(r.faults, "\n"))
	why := r.faults
	tries := 0
	least := shrink(s, func(s schedule) bool {
		tries++
		if tries > 300 {
			return false
		}
		faults := play(t, s, quiet).faults
		if len(faults) > 0 {
			why = faults
		}
		return len(faults) > 0
	})
	kept := cmp.Or(strings.ReplaceAll(strings.Trim(fmt.Sprint(least.kept), "[]"), " ", ","), "none")
	again := fmt.Sprintf("-v -run '/%s' -seed %d -steps %s", s.population.name, s.seed, kept)
	if ordered {
		again = fmt.Sprintf("go run ./suites/sim/ordered %s -order %d", again, s.order)
	} else {
		again = fmt.Sprintf("go test ./suites/sim/ %s\nor, if it does not always fail: go run ./suites/sim/ordered %s -orders 1000", again, again)
	}
	t.Errorf("the least that fails, with %s:\n%vplay it again: %s", strings.Join(why, "\n"), least, again)
}
