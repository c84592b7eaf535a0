// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// row is what all runs of one fault, or of one pair, come to.
type row struct {
	Faults       []string // what was done, in words
	Runs, Failed int
	Void         int
	// Groups are by the names of columns.
	Groups map[string]tally
}

// tally is what became of some groups in all runs of a row.
type tally struct {
	Overlaps, Lost, Late, Silent int
	Gaps                         []time.Duration // sorted
	// Share is the most that a gap took of what was promised, and Bound the
	// promise of that run.
	Share float64
	Bound time.Duration
}

// P50 is the median gap.
func (t tally) P50() time.Duration {
	if len(t.Gaps) == 0 {
		return 0
	}
	return t.Gaps[len(t.Gaps)/2]
}

// Max is the longest gap.
func (t tally) Max() time.Duration {
	if len(t.Gaps) == 0 {
		return 0
	}
	return t.Gaps[len(t.Gaps)-1]
}

// add adds a group of a run.
func (t *tally) add(g record) {
	t.Overlaps += g.Overlaps
	t.Lost += g.Lost
	t.Late += g.Late
	if g.Silent {
		t.Silent++
	}
	t.Gaps = append(t.Gaps, g.Gap)
	slices.Sort(t.Gaps)
	if g.Bound > 0 && float64(g.Gap)/float64(g.Bound) >= t.Share {
		t.Share, t.Bound = float64(g.Gap)/float64(g.Bound), g.Bound
	}
}

// zonelect is the column of both of its groups.
const zonelect = "zonelect"

// summarize returns a row for each fault and each pair, in the order of the
// faults, singles first.
func summarize(all []result) (rows []row) {
	place := map[string]int{}
	for _, r := range all {
		i, known := place[r.Faults]
		if !known {
			i = len(rows)
			place[r.Faults] = i
			rows = append(rows, row{Faults: aboutOf(r.Faults), Groups: map[string]tally{}})
		}
		rows[i].add(r)
	}
	rank := func(r row) (n int) {
		for _, about := range r.Faults {
			n = n*len(faults()) + 1 + slices.IndexFunc(faults(), func(f fault) bool { return f.about == about })
		}
		return n
	}
	slices.SortStableFunc(rows, func(a, b row) int { return rank(a) - rank(b) })
	return rows
}

func (r *row) add(x result) {
	switch x.Verdict {
	case void:
		r.Void++
		return
	case failed:
		r.Failed++
	case passed:
	}
	r.Runs++
	for name, g := range x.Groups {
		column := name
		if name != clientGo {
			column = zonelect
		}
		t := r.Groups[column]
		t.add(g)
		r.Groups[column] = t
	}
}

// aboutOf are the words for faults of these names.
func aboutOf(names string) (all []string) {
	for name := range strings.SplitSeq(names, "+") {
		i := slices.IndexFunc(faults(), func(f fault) bool { return f.name == name })
		if i >= 0 {
			name = faults()[i].about
		}
		all = append(all, name)
	}
	return all
}

// total adds all rows up.
func total(rows []row) (sum row) {
	sum = row{Faults: []string{"all"}, Groups: map[string]tally{}}
	for _, r := range rows {
		sum.Runs, sum.Failed, sum.Void = sum.Runs+r.Runs, sum.Failed+r.Failed, sum.Void+r.Void
		for name, t := range r.Groups {
			s := sum.Groups[name]
			s.Overlaps, s.Lost, s.Late, s.Silent = s.Overlaps+t.Overlaps, s.Lost+t.Lost, s.Late+t.Late, s.Silent+t.Silent
			s.Gaps = slices.Sorted(slices.Values(append(slices.Clone(s.Gaps), t.Gaps...)))
			if t.Share >= s.Share {
				s.Share, s.Bound = t.Share, t.Bound
			}
			sum.Groups[name] = s
		}
	}
	return sum
}

// printTable prints the rows for a terminal.
func printTable(to io.Writer, rows []row) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FAULT\tRUNS\tFAILED\tVOID\tOVERLAPS\tLOST\tGAP P50\tMAX\tOF BOUND\tCLIENT-GO: OVERLAPS\tLOST\tGAP P50\tMAX")
	for _, r := range append(slices.Clone(rows), total(rows)) {
		z, c := r.Groups[zonelect], r.Groups[clientGo]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%.0f%% of %s\t%d\t%d\t%s\t%s\n", strings.Join(r.Faults, " + "), r.Runs, r.Failed, r.Void,
			z.Overlaps, z.Lost, short(z.P50()), short(z.Max()), 100*z.Share, short(z.Bound), c.Overlaps, c.Lost, short(c.P50()), short(c.Max()))
	}
	return w.Flush()
}

// short drops the digits that say nothing.
func short(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }
