// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/zonelect/zonelect/test/kit/testbed"
)

// table prints the results.
func (d *demo) table() error {
	fmt.Println()
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ELECTOR\tNEW LEADER AFTER\tBEHIND THE LEASE'S END\tREAD FROM")
	for _, t := range d.teams {
		fmt.Fprintf(table, "%s\t%.3fs\t%.3fs\t%s\n", t.name, t.after.Seconds(), t.behindLease.Seconds(), t.from)
		for _, p := range t.trace.Phases {
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
