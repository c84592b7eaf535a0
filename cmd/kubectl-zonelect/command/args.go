// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// one accepts exactly one argument, such as LOCK.
func one(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usage("%s needs a %s: %s", nameOfCommand(c), what, c.UseLine())
		}
		return atMostOne(what)(c, args)
	}
}

// atMostOne accepts one argument, or none.
func atMostOne(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usage("%s takes one %s, not %d: %s", nameOfCommand(c), what, len(args), c.UseLine())
		}
		return names(what)(c, args)
	}
}

// names accepts any number of names. A LOCK may be written as kubectl writes a Lease.
func names(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		for i := range args {
			for _, kind := range []string{"lease/", "leases/", "lease.coordination.k8s.io/"} {
				if what == "LOCK" {
					args[i] = strings.TrimPrefix(args[i], kind) // cobra passes the same slice to the command
				}
			}
			if args[i] == "" || strings.Contains(args[i], "/") {
				return usage("%s: %q is no %s: %s", nameOfCommand(c), args[i], what, c.UseLine())
			}
		}
		return nil
	}
}

// noArgument accepts none. An argument may be a misspelled command.
func noArgument(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case !c.HasSubCommands():
		return usage("%s takes no arguments, but got %q: %s", nameOfCommand(c), args[0], c.UseLine())
	}
	c.SuggestionsMinimumDistance = max(c.SuggestionsMinimumDistance, 2) // cobra's own value
	alike := ""
	if names := c.SuggestionsFor(args[0]); len(names) > 0 {
		alike = fmt.Sprintf("; did you mean %s?", strings.Join(names, " or "))
	}
	return usage("%q is not a command of %s%s", args[0], c.CommandPath(), alike)
}

// nameOfCommand is how a command is called after "kubectl zonelect".
func nameOfCommand(c *cobra.Command) string {
	return cmp.Or(strings.TrimPrefix(c.CommandPath(), c.Root().CommandPath()+" "), c.CommandPath())
}

// addDryRun adds the flag of a command that changes something.
func addDryRun(c *cobra.Command, to *bool) {
	c.Flags().BoolVar(to, "dry-run", false, "Check everything, and change nothing.")
}
