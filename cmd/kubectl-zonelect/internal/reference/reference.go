// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reference writes the documents of the commands: Markdown for docs/cli, and man pages
// for releases. The plugin does not import it.
package reference

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/command"
)

// Markdown writes a page for each command into a directory.
func Markdown(dir string) error {
	return doc.GenMarkdownTree(documented(), dir)
}

// Man writes a man page for each command into a directory, in section 1.
func Man(dir, version string, date time.Time) error {
	return doc.GenManTree(documented(), &doc.GenManHeader{
		Section: "1", Source: "zonelect " + version, Manual: "zonelect", Date: &date,
	}, dir)
}

// documented returns the commands as documents show them: the same on all machines.
func documented() *cobra.Command {
	root := command.Root()
	root.DisableAutoGenTag = true
	root.PersistentFlags().Lookup("cache-dir").DefValue = "~/.kube/cache"
	each(root, func(c *cobra.Command) { c.Long = indented(c.Long) })
	return root
}

func each(c *cobra.Command, do func(*cobra.Command)) {
	do(c)
	for _, below := range c.Commands() {
		each(below, do)
	}
}

// indented makes the indented lines of a help text, such as tables, code blocks of Markdown:
// these have an empty line before them and are indented by at least four blanks.
func indented(long string) string {
	var text strings.Builder
	before := ""
	for line := range strings.Lines(strings.ReplaceAll(long, "\t", "    ")) {
		if code(line) && !code(before) && strings.TrimSpace(before) != "" {
			text.WriteString("\n")
		}
		if code(line) {
			text.WriteString("    ")
		}
		text.WriteString(line)
		before = line
	}
	return text.String()
}

func code(line string) bool { return strings.HasPrefix(line, "  ") }
