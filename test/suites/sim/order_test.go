// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build ordered

package sim_test

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	_ "unsafe" // for go:linkname
)

// ordered says that a seed always gives the same run: see the command of that
// name.
const ordered = true

// simChance is of the runtime that the command ordered makes.
//
//go:linkname simChance runtime.simChance
var simChance [5]uint64

func init() { runtime.GOMAXPROCS(1) }

// follow makes all chance from now on depend on a seed and the number of an
// order, until end is called. It empties the pools that earlier runs have filled.
// Meanwhile garbage is collected only at the memory limit.
func follow(seed, order uint64) (end func()) {
	runtime.GC()
	runtime.GC() // the contents of a pool outlive the first
	percent, limit := debug.SetGCPercent(-1), debug.SetMemoryLimit(2<<30)
	for i := range simChance {
		simChance[i] = seed ^ order<<40 ^ uint64(i)<<60
	}
	simChance[len(simChance)-1] = 1
	return func() {
		simChance = [5]uint64{}
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}
}

// TestASeedGivesTheSameRun whatever ran before it.
func TestASeedGivesTheSameRun(t *testing.T) {
	if *oneSeed != 0 {
		t.Skip("one seed is played")
	}
	const seeds = 12
	for _, p := range populations {
		t.Run(p.name, func(t *testing.T) {
			warm(t, p)
			var first, again [seeds][]string
			tell := func(s schedule) (told []string) {
				r := play(t, s, func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) })
				return append(told, fmt.Sprint(r))
			}
			for i := range seeds {
				first[i] = tell(p.schedule(*firstSeed + uint64(i)))
			}
			for i := range slices.Backward(again[:]) {
				again[i] = tell(p.schedule(*firstSeed + uint64(i)))
			}
			differ := 0
			for i := range seeds {
				other := p.schedule(*firstSeed + uint64(i))
				other.order++
				if !slices.Equal(tell(other), first[i]) {
					differ++
				}
				for n, line := range again[i] {
					if n >= len(first[i]) || first[i][n] != line {
						t.Errorf("seed %d differs at line %d of %d:\n%s\n%s", *firstSeed+uint64(i), n, len(again[i]), line, first[i][min(n, len(first[i])-1)])
						break
					}
				}
			}
			if differ == 0 {
				t.Error("in another order nothing happened in another way")
			}
		})
	}
}
