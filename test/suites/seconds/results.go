// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
)

// results are what was measured.
type results struct {
	Network string `json:"network"`
	Timing  string `json:"timing"`
	Locks   int    `json:"locks"`
	Quiet   *span  `json:"quiet,omitempty"`
	Kills   []span `json:"kills,omitempty"`
	Losses  []loss `json:"losses,omitempty"`
}

// span is some time, and how many terms ended in it, in how many processes.
type span struct {
	Minutes   float64 `json:"minutes"`
	Terms     int     `json:"terms"`
	Processes int     `json:"processes"`
}

// loss is the loss of a zone: how many locks were led from it, and after how many seconds half
// of them and all of them were led again.
type loss struct {
	Locks int     `json:"locks"`
	Half  float64 `json:"half"`
	All   float64 `json:"all"`
}

// String says what was run, and what came of it.
func (r *results) String() string {
	w := &strings.Builder{}
	fmt.Fprintf(w, "3 processes with %d locks and a heartbeat each, timing %s, zones joined by %s\n", r.Locks, r.Timing, r.Network)
	if q := r.Quiet; q != nil {
		fmt.Fprintf(w, "nothing failed for %.0f minutes: %d terms lost\n", q.Minutes, q.Terms)
	}
	r.describeKills(w)
	if len(r.Losses) > 0 {
		fmt.Fprintf(w, "the leaders' zone lost its power %d times; seconds until others led\n", len(r.Losses))
		fmt.Fprintf(w, "  half of the locks: %s\n", spread(r.Losses, func(l loss) float64 { return l.Half }))
		fmt.Fprintf(w, "  all locks:         %s\n", spread(r.Losses, func(l loss) float64 { return l.All }))
	}
	return w.String()
}

func (r *results) describeKills(w *strings.Builder) {
	if len(r.Kills) == 0 {
		return
	}
	var minutes float64
	var terms, most, lossy int
	for _, k := range r.Kills {
		minutes += k.Minutes
		terms += k.Terms
		most = max(most, k.Processes)
		if k.Terms > 0 {
			lossy++
		}
	}
	fmt.Fprintf(w, "etcd's leader was killed %d times in %.0f minutes: %d of them cost terms, %d in all, in %d processes at most each time\n", len(r.Kills), minutes, lossy, terms, most)
}

// spread describes how some numbers are spread.
func spread(all []loss, of func(loss) float64) string {
	var numbers []float64
	for _, l := range all {
		numbers = append(numbers, of(l))
	}
	slices.Sort(numbers)
	return fmt.Sprintf("p50 %.2f, p99 %.2f, most %.2f", percentile(numbers, 50), percentile(numbers, 99), numbers[len(numbers)-1])
}

// percentile is the smallest of the sorted numbers that so many percent do not exceed.
func percentile(sorted []float64, percent int) float64 {
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}
