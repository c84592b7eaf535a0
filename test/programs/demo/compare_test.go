// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"math"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/zonelect/zonelect/test/kit/testbed"
)

var runs = flag.Int("runs", 0, "how often to compare the embedded API server with a real control plane")

// enough runs for their median: when the power is lost, a renewal is up to two seconds old.
const enough = 5

// TestTheEmbeddedAPIServerShowsWhatARealOneShows: in runs side by side, the order of the electors is
// the same, and zonelect's medians differ by a fifth at most.
func TestTheEmbeddedAPIServerShowsWhatARealOneShows(t *testing.T) {
	if *runs == 0 {
		t.Skip("takes a minute and a half for each of -runs")
	}
	isReal, err := testbed.Built(t.Context(), "", t.Output())
	if err != nil {
		t.Fatal(err)
	}
	embedded, err := testbed.Embedded(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var after [2][]float64 // of zonelect, in each
	for range *runs {
		var both [2]*demo
		var playing errgroup.Group
		for i, programs := range []testbed.Programs{isReal, embedded} {
			both[i] = &demo{programs: programs, teams: teams(false, time.Minute)}
			playing.Go(func() error { return both[i].run(t.Context()) })
		}
		if err := playing.Wait(); err != nil {
			t.Fatal(err)
		}
		for i, d := range both {
			after[i] = append(after[i], d.results[0].AfterFault)
			for _, x := range d.results {
				t.Logf("%s: %s after %.3f s, %.3f s behind the lease", d.programs.From, x.Name, x.AfterFault, x.BehindLease)
			}
			if !slices.IsSortedFunc(d.results, func(a, b result) int { return int(math.Copysign(1, a.AfterFault-b.AfterFault)) }) {
				t.Errorf("%s: zonelect is not first: %+v", d.programs.From, d.results)
			}
		}
	}
	if a, b := median(after[0]), median(after[1]); *runs >= enough && math.Abs(a-b) > 0.2*a {
		t.Errorf("zonelect's median is %.3f s on Kubernetes and %.3f s embedded", a, b)
	}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}
