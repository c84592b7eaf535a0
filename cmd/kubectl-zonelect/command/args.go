// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// one accepts exactly one argument, such as LOCK. A LOCK may be written as kubectl writes a Lease.
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
		switch {
		case len(args) > 1:
			return usage("%s takes one %s, not %d: %s", nameOfCommand(c), what, len(args), c.UseLine())
		case len(args) == 1 && args[0] == "":
			return usage("%s: the %s is empty: %s", nameOfCommand(c), what, c.UseLine())
		case len(args) == 1 && what == "LOCK":
			name, err := lockName(args[0])
			args[0] = name // cobra passes the same slice to the command
			return err
		}
		return nil
	}
}

// leaseKinds are kubectl's words for what a lock is. A legacy lock may have no Lease yet.
var leaseKinds = regexp.MustCompile(`^(?i:leases?(\.v1)?(\.coordination\.k8s\.io)?|configmaps?|cm|endpoints|ep)$`)

// anyLocks accepts any number of LOCKs.
func anyLocks(c *cobra.Command, args []string) error {
	for i := range args {
		if err := atMostOne("LOCK")(c, args[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// lockName is the name in what 'status -o name' and 'kubectl get -o name' print.
func lockName(text string) (string, error) {
	kind, name, typed := strings.Cut(text, "/")
	switch {
	case !typed:
		return text, nil
	case strings.Contains(name, "/"):
	case leaseKinds.MatchString(kind) && name != "":
		return name, nil
	}
	return "", usage("%q is no LOCK: give its name, lease/NAME or lease.coordination.k8s.io/NAME", text)
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

// addDryRun adds kubectl's flag of that name: none or client. It also accepts the values of a
// Boolean flag.
func addDryRun(c *cobra.Command, to *bool) {
	const help = "Check everything, and change nothing: `none|client`. The flag alone means client."
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
