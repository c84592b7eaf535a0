// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"slices"
	"time"
)

//go:embed report.html
var reportText string

// reportPage is the page; see page for what it shows.
var reportPage = template.Must(template.New("report").Funcs(template.FuncMap{
	"short": short,
	"table": func(title string, rows []row, total any) map[string]any {
		return map[string]any{"Title": title, "Rows": rows, "Total": total}
	},
	"percent": func(share float64) string { return fmt.Sprintf("%.0f", 100*share) },
}).Parse(reportText))

// page is what the page shows.
type page struct {
	summary
	From, To time.Time
	Commits  []string
	Seeds    []uint64
	Networks []string
	Timings  []string
	Took     time.Duration
	// Done and Possible count pairs of faults.
	Done, Possible int
	// Grid has a line for each fault, and in it a cell for each fault up to
	// itself; the last cell is for the fault alone.
	Grid []line
	// Told are the runs that have something to report.
	Told []result
}

type line struct {
	Number int
	Fault  string
	Cells  []cell
}

// cell is how often two faults were done together.
type cell struct {
	Name                 string
	Runs, Failed, Voided int
}

// newPage is a pure function.
func newPage(all []result) page {
	p := page{summary: summarize(all)}
	cells := map[string]*cell{}
	for _, r := range all {
		if p.From.IsZero() || r.Time.Before(p.From) {
			p.From = r.Time
		}
		if r.Time.After(p.To) {
			p.To = r.Time
		}
		p.Took += r.Took.Duration
		note(&p.Commits, r.Commit)
		note(&p.Seeds, r.Seed)
		note(&p.Networks, r.Network)
		note(&p.Timings, r.Timing)
		if r.Verdict != passed || tells(r) {
			p.Told = append(p.Told, r)
		}
		if cells[r.Faults] == nil {
			cells[r.Faults] = &cell{Name: r.Faults}
		}
		cells[r.Faults].add(r)
	}
	rows := faults()
	for i, f := range rows {
		l := line{Number: i + 1, Fault: f.about}
		for _, g := range rows[:i+1] {
			pair := listed([]fault{f, g})
			if i == len(l.Cells) {
				pair = pair[:1]
			}
			c := cells[nameOf(pair)]
			if c == nil {
				c = &cell{Name: nameOf(pair)}
			}
			if len(pair) == 2 {
				p.Possible++
				p.Done += min(1, c.Runs)
			}
			l.Cells = append(l.Cells, *c)
		}
		p.Grid = append(p.Grid, l)
	}
	return p
}

// note adds a value unless it is there.
func note[T comparable](all *[]T, one T) {
	if !slices.Contains(*all, one) {
		*all = append(*all, one)
	}
}

func (c *cell) add(r result) {
	switch r.Verdict {
	case void:
		c.Voided++
	case failed:
		c.Failed++
		c.Runs++
	case passed:
		c.Runs++
	}
}

// tells reports whether a judge noted something in a run.
func tells(r result) bool {
	for _, g := range r.Groups {
		if len(g.Notes) > 0 {
			return true
		}
	}
	return false
}

// conclude prints the totals of all runs, and writes the page.
func conclude(o options, all []result) error {
	fmt.Println()
	if err := summarize(all).print(os.Stdout); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	if err := lastOf(all).print(os.Stdout); err != nil {
		return fmt.Errorf("print what the last commit comes to: %w", err)
	}
	var text bytes.Buffer
	if err := reportPage.Execute(&text, newPage(all)); err != nil {
		return fmt.Errorf("make the page: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(o.html), 0o750); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	if err := os.WriteFile(o.html, text.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	fmt.Printf("\nWritten to %s\n", o.html)
	return nil
}

func writeJSON(path string, value any) error {
	data, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.WriteFile(path, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}
