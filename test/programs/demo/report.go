// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/zonelect/zonelect/test/kit/spans"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// report is what build/demo/report.json holds. Durations are in seconds.
type report struct {
	ControlPlane  string   `json:"controlPlane"` // where its programs come from
	Network       string   `json:"network"`
	LeaseDuration float64  `json:"leaseDuration"`
	Results       []result `json:"results"`
}

// result is how one takeover went.
type result struct {
	Kind        string  `json:"kind"`
	Name        string  `json:"name"`
	Fault       string  `json:"fault"`
	NextLeader  string  `json:"nextLeader"`
	AfterFault  float64 `json:"afterFault"`
	NeverWithin float64 `json:"neverWithin,omitempty"` // how long nobody led, if only that is known
	BehindLease float64 `json:"behindLease"`
	From        string  `json:"from"` // what the figures were read from
	Phases      []phase `json:"phases,omitempty"`

	trace spans.Failover // without phases if there is none
}

type phase struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// fromSpans replaces the outside view with what the winner's trace says.
func (r result) fromSpans(winner *trial.Seat, cut time.Time) (result, error) {
	span, err := spans.LastFailover(winner.Traces)
	if err != nil {
		return r, err
	}
	r.From, r.trace = "trace", span
	r.AfterFault = span.EndTime.Sub(cut).Seconds()
	r.BehindLease = (span.Duration() - lease).Seconds()
	for _, s := range span.Phases {
		r.Phases = append(r.Phases, phase{Name: s.Name, Seconds: s.Duration().Seconds()})
	}
	return r, nil
}

// table prints the results.
func (d *demo) table() error {
	fmt.Println()
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ELECTOR\tFAULT\tNEW LEADER AFTER\tBEHIND THE LEASE'S END\tREAD FROM")
	for _, x := range d.results {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", x.Name, x.Fault, x.took(), x.behind(), x.From)
		for _, p := range x.Phases {
			fmt.Fprintf(table, "  %s\t\t%.3fs\t\t\n", p.Name, p.Seconds)
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	return nil
}

// took says in words how long there was no leader.
func (r result) took() string {
	if r.NeverWithin > 0 {
		return fmt.Sprintf("never within %v", time.Duration(r.NeverWithin*float64(time.Second)))
	}
	return fmt.Sprintf("%.3fs", r.AfterFault)
}

// behind says how long that was after the lease's end, if there was a lease.
func (r result) behind() string {
	if r.Kind == string(trial.Legacy) {
		return "no lease"
	}
	return fmt.Sprintf("%.3fs", r.BehindLease)
}

// report writes the results as JSON.
func (d *demo) report() error {
	data, err := json.MarshalIndent(report{
		ControlPlane: d.programs.From, Network: d.network.String(), LeaseDuration: lease.Seconds(), Results: d.results,
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return save("report.json", append(data, '\n'))
}

// save writes a file of build/demo, and says so.
func save(name string, data []byte) error {
	root, err := testbed.Root()
	if err != nil {
		return err
	}
	path := filepath.Join(root, "build", "demo", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	fmt.Printf("\nWritten to build/demo/%s\n", name)
	return nil
}
