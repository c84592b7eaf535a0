// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reference writes the documents of the commands: Markdown for docs/cli, and man pages
// for releases. The plugin does not import it.
package reference

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/command"
)

// Markdown writes a page for each command into a directory, except for those of completion, which
// install.md explains. The page of the root alone has the flags of all commands.
func Markdown(dir string) error {
	root := withoutCompletion()
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { f.Hidden = true })
	var errs []error
	each(root, func(c *cobra.Command) {
		if c.Name() != "help" { // which doc adds
			errs = append(errs, page(c, dir))
		}
	})
	return errors.Join(append(errs, page(withoutCompletion(), dir))...)
}

// page writes the page of a command: its examples first, and what its help has no room for.
func page(c *cobra.Command, dir string) error {
	var text bytes.Buffer
	if err := doc.GenMarkdown(c, &text); err != nil {
		return err
	}
	before, rest, _ := strings.Cut(text.String(), "### Synopsis\n\n")
	if synopsis, examples, has := strings.Cut(rest, "### Examples\n\n"); has {
		examples, rest, _ = strings.Cut(examples, "### ")
		rest = "### Examples\n\n" + examples + "### Synopsis\n\n" + synopsis + "### " + rest
	} else {
		rest = "### Synopsis\n\n" + rest
	}
	if details := command.Details(c); details != "" {
		rest = strings.Replace(rest, "### Options\n", "### Details\n\n"+indented(details)+"\n\n### Options\n", 1)
	}
	name := strings.ReplaceAll(c.CommandPath(), " ", "_") + ".md"
	return os.WriteFile(filepath.Join(dir, name), []byte(before+rest), 0o644) //nolint:gosec // a document
}

func withoutCompletion() *cobra.Command {
	root := documented()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			root.RemoveCommand(c)
		}
	}
	return root
}

// Man writes a man page for each command into a directory, in section 1.
func Man(dir, version string, date time.Time) error {
	return doc.GenManTree(documented(), &doc.GenManHeader{
		Section: "1", Source: "zonelect " + version, Manual: "zonelect", Date: &date,
	}, dir)
}

// documented returns the commands as documents show them: the same on all machines.
func documented() *cobra.Command {
	root := command.Documented()
	root.DisableAutoGenTag = true
	root.PersistentFlags().Lookup("cache-dir").DefValue = "~/.kube/cache"
	each(root, func(c *cobra.Command) { c.Long = indented(c.Long) })
	return root
}

// each calls do for a command and those below it that people see.
func each(c *cobra.Command, do func(*cobra.Command)) {
	do(c)
	for _, below := range c.Commands() {
		if !below.Hidden {
			each(below, do)
		}
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
