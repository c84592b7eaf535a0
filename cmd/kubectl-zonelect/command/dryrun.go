// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"

	"github.com/spf13/cobra"
)

// addDryRun adds kubectl's flag of that name: none or client. It also takes what a flag
// for yes or no takes.
func addDryRun(c *cobra.Command, to *bool) {
	const help = "Must be `none|client`. With client, which is what the flag alone means, the command checks everything and changes nothing."
	c.Flags().Func("dry-run", help, func(s string) error {
		switch s {
		case "none", "false":
			*to = false
		case "client", "true":
			*to = true
		case "server":
			return errors.New("use none or client: a dry run reads, and sends no write that the server could try")
		default:
			return errors.New("use none or client")
		}
		return nil
	})
	c.Flag("dry-run").NoOptDefVal = "client"
	_ = c.RegisterFlagCompletionFunc("dry-run", cobra.FixedCompletions([]string{"none", "client"}, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}
