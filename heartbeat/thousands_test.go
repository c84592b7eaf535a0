// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"flag"
	"slices"
	"testing"
	"time"
)

var thousands = flag.Int("thousands", 200, "how many locks TestThousandsOfLocksAreLedAgain has in each of three processes")

// TestThousandsOfLocksAreLedAgain plays, on a server with answers of 10 ms, that a process with
// many locks ends, and that it dies. It prints how long that takes and how many writes it costs.
// test/suites/bench/README.md has what it prints for 10,000 locks.
func TestThousandsOfLocksAreLedAgain(t *testing.T) {
	n := *thousands
	for what, leave := range map[string]func(a *process){
		"ends": func(a *process) { a.quit() },
		"dies": func(a *process) { a.cut(true) },
	} {
		t.Run(what, func(t *testing.T) {
			scenario(t, func(w *world) {
				w.peers, w.places = known("a", "b", "c"), 16
				all := []*process{w.process("a", true), w.process("b", true), w.process("c", true)}
				for _, p := range all {
					p.slow()
					p.campaign(n)
					elapse(time.Duration(n)*2*time.Millisecond + 10*time.Second)
				}
				if led := all[0].leads(); led != n {
					t.Fatalf("a leads %d of %d", led, n)
				}
				for _, p := range all {
					p.count("PUT")
				}
				began := time.Now()
				leave(all[0])
				elapse(w.Timing.LeaseDuration + time.Duration(n)*3*time.Millisecond + 10*time.Second)
				var took []time.Duration
				for _, h := range w.histories {
					if terms := h.Terms(); len(terms) == 2 {
						took = append(took, terms[1].Began.Sub(began))
					}
				}
				slices.Sort(took)
				if len(took) != n {
					t.Fatalf("%d of %d are led again", len(took), n)
				}
				writes := all[1].count("PUT") + all[2].count("PUT")
				t.Logf("%d locks, a process %s: half are led after %v, 99 %% after %v, all after %v; %d writes by it, %d by others",
					n, what, took[n/2], took[n*99/100], took[n-1], all[0].count("PUT"), writes)
			})
		})
	}
}
