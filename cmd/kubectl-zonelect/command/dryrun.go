// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"

	"github.com/spf13/cobra"
)

// dryRun is kubectl's flag of that name: none or client.
type dryRun bool

var dryRuns = []string{"none", "client"}

// addDryRun adds the flag.
func addDryRun(c *cobra.Command, to *bool) {
	f := c.Flags().VarPF((*dryRun)(to), "dry-run", "", `Must be "none" or "client". With client, which is what the flag alone means, check everything and change nothing.`)
	f.NoOptDefVal = "client"
	_ = c.RegisterFlagCompletionFunc("dry-run", cobra.FixedCompletions(dryRuns, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

func (d *dryRun) String() string {
	if *d {
		return "client"
	}
	return "none"
}

// Set also takes what a flag for yes or no takes.
func (d *dryRun) Set(s string) error {
	switch s {
	case "none", "false":
		*d = false
	case "client", "true":
		*d = true
	case "server":
		return errors.New("use none or client: a dry run reads, and sends no write that the server could try")
	default:
		return errors.New("use none or client")
	}
	return nil
}

// Type is how the help calls a value.
func (d *dryRun) Type() string { return "string" }
