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

// row is the summary of some runs.
type row struct {
	Fault                string // in words
	Runs, Failed, Voided int
	Zonelect, ClientGo   tally
}

// tally is the outcome of the candidates of one kind in some runs.
type tally struct {
	Overlaps, Lost, Late, Silent, Exits int
	Gaps                                []time.Duration
	// Share is the largest share of its promise that a gap took, and Bound is
	// that promise.
	Share float64
	Bound time.Duration
}

// P50 is the median gap.
func (t tally) P50() time.Duration { return t.rank(len(t.Gaps) / 2) }

// Max is the longest gap.
func (t tally) Max() time.Duration { return t.rank(len(t.Gaps) - 1) }

func (t tally) rank(i int) time.Duration {
	if len(t.Gaps) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(t.Gaps))[i]
}

// Most is the longest gap, in words; it was not over if a group stayed silent.
func (t tally) Most() string {
	if t.Silent > 0 {
		return "> " + short(t.Max())
	}
	return short(t.Max())
}

// addSafety adds a group of a run to which no gap is promised.
func (t *tally) addSafety(g record) {
	t.Overlaps += g.Overlaps
	t.Lost += g.Lost
	t.Late += g.Late
	t.Exits += g.Exits
}

// add adds a group of a run.
func (t *tally) add(g record) {
	t.addSafety(g)
	if g.Silent {
		t.Silent++
	}
	t.Gaps = append(t.Gaps, g.Gap.Duration)
	if g.Bound.Duration == 0 {
		return
	}
	if share := float64(g.Gap.Duration) / float64(g.Bound.Duration); share >= t.Share {
		t.Share, t.Bound = share, g.Bound.Duration
	}
}

// add adds a run.
func (r *row) add(x result) {
	if x.Verdict == void {
		r.Voided++
		return
	}
	r.Runs++
	if x.Verdict == failed {
		r.Failed++
	}
	for name, g := range x.Groups {
		switch name {
		case clientGo:
			r.ClientGo.add(g)
		case onMixed:
			r.ClientGo.Overlaps += g.Theirs
			r.Zonelect.addSafety(g)
		default:
			r.Zonelect.add(g)
		}
	}
}

// summary is the summary of all runs.
type summary struct {
	// Singles has a row for each fault that was done alone; Pairs one for each
	// that was done beside another, so that each such run counts twice.
	Singles, Pairs []row
	Total          row
}

// summarize is a pure function.
func summarize(all []result) summary {
	s := summary{Total: row{Fault: "all runs"}}
	for _, f := range faults() {
		single, pair := row{Fault: f.about}, row{Fault: f.about}
		for _, r := range all {
			switch names := strings.Split(r.Faults, "+"); {
			case !slices.Contains(names, f.name):
			case len(names) == 1:
				single.add(r)
			default:
				pair.add(r)
			}
		}
		if single.Runs+single.Voided > 0 {
			s.Singles = append(s.Singles, single)
		}
		if pair.Runs+pair.Voided > 0 {
			s.Pairs = append(s.Pairs, pair)
		}
	}
	for _, r := range all {
		s.Total.add(r)
	}
	return s
}

// print prints the tables for a terminal.
func (s summary) print(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	head := func(what string) {
		fmt.Fprintf(w, "\t\t\t\tZONELECT\t\t\t\t\tCLIENT-GO\t\t\t\n")
		fmt.Fprintf(w, "%s\tRUNS\tFAILED\tVOID\tOVERLAPS\tLOST\tGAP P50\tMAX\tAT WORST\tOVERLAPS\tLOST\tGAP P50\tMAX\n", what)
	}
	line := func(r row) {
		z, c := r.Zonelect, r.ClientGo
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%d\t%d\t%s\t%s\n", r.Fault, r.Runs, r.Failed, r.Voided,
			z.Overlaps, z.Lost, short(z.P50()), z.Most(), z.worst(), c.Overlaps, c.Lost, short(c.P50()), c.Most())
	}
	head("ONE FAULT")
	for _, r := range s.Singles {
		line(r)
	}
	if len(s.Pairs) > 0 {
		fmt.Fprintln(w)
		head("WITH A SECOND ONE")
		for _, r := range s.Pairs {
			line(r)
		}
	}
	fmt.Fprintln(w)
	line(s.Total)
	return w.Flush()
}

// worst is how near a gap came to its promise.
func (t tally) worst() string {
	if t.Bound == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f %% of %s", 100*t.Share, short(t.Bound))
}

// short drops insignificant digits.
func short(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }
