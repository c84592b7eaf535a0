// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/zonelect/zonelect/test/kit/spans"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// result is how one takeover went.
type result struct {
	name        string
	nextLeader  string
	after       time.Duration
	behindLease time.Duration
	from        string         // what the figures were read from
	trace       spans.Failover // without phases if there is none
}

// fromSpans replaces the outside view with what the winner's trace says.
func (r result) fromSpans(winner *trial.Seat, cut time.Time) (result, error) {
	span, err := spans.LastFailover(winner.Traces)
	if err != nil {
		return r, err
	}
	r.from, r.trace = "trace", span
	r.after = span.EndTime.Sub(cut)
	r.behindLease = span.Duration() - lease
	return r, nil
}

// table prints the results.
func (d *demo) table() error {
	fmt.Println()
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ELECTOR\tNEW LEADER AFTER\tBEHIND THE LEASE'S END\tREAD FROM")
	for _, x := range d.results {
		fmt.Fprintf(table, "%s\t%.3fs\t%.3fs\t%s\n", x.name, x.after.Seconds(), x.behindLease.Seconds(), x.from)
		for _, p := range x.trace.Phases {
			fmt.Fprintf(table, "  %s\t%.3fs\t\t\n", p.Name, p.Duration().Seconds())
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	return nil
}

// save writes the picture into build/demo, and says so.
func save(picture []byte) error {
	root, err := testbed.Root()
	if err != nil {
		return err
	}
	path := filepath.Join(root, "build", "demo", "picture.svg")
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, picture, 0o600)); err != nil {
		return fmt.Errorf("write the picture: %w", err)
	}
	fmt.Println("\nWritten to build/demo/picture.svg")
	return nil
}
