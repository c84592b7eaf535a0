// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// last is the outcome of the runs of the last commit, and how many failures of
// any commit have not passed since.
type last struct {
	Commit         string
	Judged, Voided int
	// Single and Pair are how much of what was promised the median gap used.
	Single, Pair float64
	// Took is how long a run took, and Seating, Faults, Recover and Ending are
	// its parts.
	Took, Seating, Faults, Recover, Ending time.Duration
	// Failures are those of all runs, Passed those that have passed since, and
	// Open those that have not.
	Failures, Passed, Open int
}

// lastOf is pure.
func lastOf(all []result) (l last) {
	if len(all) == 0 {
		return l
	}
	l.Commit = all[len(all)-1].Commit
	var single, pair []float64
	for _, r := range all {
		if r.Verdict == failed && !r.Again {
			l.Failures++
		}
		if r.Commit != l.Commit {
			continue
		}
		if r.Verdict == void {
			l.Voided++
			continue
		}
		l.spend(r)
		if strings.Contains(r.Faults, "+") {
			pair = append(pair, r.shares()...)
		} else {
			single = append(single, r.shares()...)
		}
	}
	l.Single, l.Pair = middle(single), middle(pair)
	l.Open = len(failures(all))
	l.Passed = l.Failures - l.Open
	return l
}

func (l *last) spend(r result) {
	n := time.Duration(l.Judged)
	l.Judged++
	for mean, one := range map[*time.Duration]time.Duration{
		&l.Took: r.Took.Duration, &l.Seating: r.Spent.Seating.Duration, &l.Faults: r.Spent.Faults.Duration,
		&l.Recover: r.Spent.Recover.Duration, &l.Ending: r.Spent.Ending.Duration,
	} {
		*mean = (*mean*n + one) / (n + 1)
	}
}

// shares are how much of what was promised each group's gap used.
func (r result) shares() (all []float64) {
	for _, g := range r.Groups {
		if g.Bound.Duration > 0 {
			all = append(all, float64(g.Gap.Duration)/float64(g.Bound.Duration))
		}
	}
	return all
}

// middle is the median, and 0 of none.
func middle(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func (l last) print(to io.Writer) error {
	_, err := fmt.Fprintf(to, `
At commit %s %d runs were judged, and %d void. Of what was promised the median gap
used %.0f %% under one fault, and %.0f %% under two. A run took %s: %s to seat the candidates,
%s for the faults, %s until all wrote again, %s to end and to judge it.
%d runs failed at any commit; %d of them have passed since, and %d have not.
`, l.Commit, l.Judged, l.Voided, 100*l.Single, 100*l.Pair, short(l.Took), short(l.Seating), short(l.Faults), short(l.Recover), short(l.Ending), l.Failures, l.Passed, l.Open)
	return err
}
