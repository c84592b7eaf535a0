// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main_test

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report collects what the tests measure. They do not run in parallel.
var report table

// table is printed as Markdown.
type table struct{ rows [][]string }

// add adds a row. An empty cell was not measured.
func (r *table) add(work, bare, zonelect, clientGo, law string) {
	r.rows = append(r.rows, []string{work, bare, zonelect, clientGo, law})
}

// spread adds the percentiles of the durations that were measured, and how they
// compare with the bare ones.
func (r *table) spread(work string, bare, zonelect, clientGo []time.Duration, lawP50, lawP99 string) {
	row := func(name, law string, cell func(all []time.Duration) string) {
		cells := make([]string, 3)
		for i, all := range [][]time.Duration{bare, zonelect, clientGo} {
			if len(all) > 0 {
				cells[i] = cell(all)
			}
		}
		r.add(work+", "+name, cells[0], cells[1], cells[2], law)
	}
	at := func(p float64) func(all []time.Duration) string {
		return func(all []time.Duration) string {
			d := percentile(all, p)
			if len(bare) == 0 || &all[0] == &bare[0] {
				return short(d)
			}
			return fmt.Sprintf("%s (x%.1f)", short(d), float64(d)/float64(percentile(bare, p)))
		}
	}
	row("p50", lawP50, at(0.5))
	row("p99", lawP99, at(0.99))
	row("worst", "", at(1))
	row("rounds", "", func(all []time.Duration) string { return fmt.Sprint(len(all)) })
}

// short drops insignificant digits.
func short(d time.Duration) string {
	if d.Abs() < time.Second {
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}

func (r *table) print(to io.Writer) {
	if len(r.rows) == 0 {
		return
	}
	fmt.Fprintf(to, "\nMeasured on %s/%s with %d CPUs:\n\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	w := tabwriter.NewWriter(to, 0, 0, 1, ' ', 0)
	line := func(cells []string) { fmt.Fprintf(w, "| %s\t|\n", strings.Join(cells, "\t| ")) }
	head := []string{"work", "bare writes", "zonelect", "client-go", "zonelect must reach"}
	line(head)
	line(slices.Repeat([]string{"---"}, len(head)))
	for _, row := range r.rows {
		line(row)
	}
	w.Flush()
	fmt.Fprintln(to)
}
