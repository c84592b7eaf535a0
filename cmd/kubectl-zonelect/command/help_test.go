// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// helpOf returns what a command prints with --help.
func helpOf(t *testing.T, path string) string {
	t.Helper()
	root := Root()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs(append(strings.Fields(path), "--help"))
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestEveryHelpBeginsWithExamples: the flags of all commands are in the root's help alone.
func TestEveryHelpBeginsWithExamples(t *testing.T) {
	everyCommand(func(c *cobra.Command, path string) {
		help := helpOf(t, path)
		lines := strings.Split(help, "\n")
		for _, line := range lines {
			if len([]rune(line)) > 120 {
				t.Errorf("the help of %q has a long line: %s", path, line)
			}
		}
		if c.HasExample() && !strings.HasPrefix(lines[2], "  ") {
			t.Errorf("the help of %q begins with no example:\n%s", path, help)
		}
		if strings.Contains(help, "--as-group") {
			t.Errorf("the help of %q has flags of kubectl:\n%s", path, help)
		}
	})
}

// TestEveryExampleIsACommand with flags and arguments that there are.
func TestEveryExampleIsACommand(t *testing.T) {
	found := 0
	everyCommand(func(c *cobra.Command, path string) {
		for _, m := range regexp.MustCompile(`(?m)^ +kubectl zonelect ([^#|>\n]*)`).FindAllStringSubmatch(c.Example, -1) {
			found++
			named, rest, err := Root().Find(strings.Fields(strings.ReplaceAll(m[1], "'", "")))
			if err == nil {
				err = named.ParseFlags(rest)
			}
			if err == nil {
				err = named.ValidateArgs(named.Flags().Args())
			}
			if err != nil || named.Name() != c.Name() && c.HasParent() && !c.HasSubCommands() {
				t.Errorf("an example of %q: %s: %v", path, m[0], err)
			}
		}
	})
	if found < 30 {
		t.Errorf("only %d examples were found", found)
	}
}
