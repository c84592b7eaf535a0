// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

const repository = "../../.."

var (
	// quoted is a command in a text, and displayed one in a document or at the end of an error.
	quoted    = regexp.MustCompile(`'(kubectl [^'\n]+)'`)
	displayed = regexp.MustCompile("(?m)`(kubectl zonelect [^`]*)`|^(?:    .*|\\$ )(kubectl zonelect .*)$")
	// clone is a path that only a clone of the repository has, and page the address of a document.
	clone = regexp.MustCompile(`(?:^|[^\w/-])(?:config|docs)/[\w-]+`)
	page  = regexp.MustCompile(`https://github\.com/zonelect/zonelect/blob/main/([\w/.-]+\w)`)
	// everywhere are the commands about what belongs to no namespace, or to all.
	everywhere = regexp.MustCompile(`^kubectl (get (apiservices|--raw|nodes )|create namespace |describe node |apply -k |zonelect status -A)`)
)

// Root returns the commands.
func Root() *cobra.Command {
	return newRoot(newEnvironment(genericiooptions.NewTestIOStreamsDiscard()))
}

// everyCommand calls do for each command below one.
func everyCommand(c *cobra.Command, do func(*cobra.Command)) {
	do(c)
	for _, sub := range c.Commands() {
		everyCommand(sub, do)
	}
}

// fault says why a command of a text cannot be run as it is; empty if it can.
func fault(t *testing.T, text string) string {
	t.Helper()
	text, _, _ = strings.Cut(text, "  ")
	text = regexp.MustCompile(` [|>;#<].*`).ReplaceAllString(text, "")
	text = strings.NewReplacer("%s", "1s", "%v", "1s", "%d", "1", "...", "x", "[", "", "]", "", `"`, "", "\\", "").Replace(text)
	args := strings.Fields(strings.TrimPrefix(text, "kubectl zonelect"))
	root := Root()
	root.InitDefaultVersionFlag() // cobra does when it runs a command
	c, rest, err := root.Find(args)
	if err == nil {
		err = c.ParseFlags(rest)
	}
	if err == nil && c != root && len(c.Flags().Args()) > 0 {
		err = c.ValidateArgs(c.Flags().Args())
	}
	// A document may name the flag alone.
	if err == nil || errors.Is(err, pflag.ErrHelp) || strings.HasPrefix(err.Error(), "flag needs an argument") {
		return ""
	}
	return err.Error()
}

// hintsOf returns what the golden files say that people should do.
func hintsOf(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.golden")
	must(t, err)
	var all []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		for line := range strings.Lines(string(text)) {
			for _, mark := range []string{" -> ", ": to do: ", " grants that: "} {
				if _, hint, is := strings.Cut(line, mark); is {
					all = append(all, strings.TrimSuffix(hint, "\n"))
				}
			}
		}
	}
	return all
}

// TestEveryHintCanBeFollowed by somebody who has the plugin alone, in whatever namespace he is: its
// commands are there, with the namespace that they are about, and it names no file of a clone.
func TestEveryHintCanBeFollowed(t *testing.T) {
	hints := hintsOf(t)
	for _, hint := range hints {
		for _, command := range quoted.FindAllStringSubmatch(hint, -1) {
			if !everywhere.MatchString(command[1]) && !strings.Contains(command[1], " -n ") {
				t.Errorf("%q names no namespace", command[1])
			}
			if strings.HasPrefix(command[1], "kubectl zonelect") {
				if fault := fault(t, command[1]); fault != "" {
					t.Errorf("%s: %s", command[1], fault)
				}
			}
		}
		for _, link := range page.FindAllStringSubmatch(hint, -1) {
			if _, err := os.Stat(filepath.Join(repository, link[1])); err != nil {
				t.Error(err)
			}
		}
		if path := clone.FindString(hint); path != "" {
			t.Errorf("%q names %q", hint, path)
		}
	}
}

// TestEveryTextNamesCommandsThatThereAre: in the code, its help, and the documents.
func TestEveryTextNamesCommandsThatThereAre(t *testing.T) {
	n := 0
	check := func(name string) {
		text, err := os.ReadFile(name)
		must(t, err)
		for _, all := range [][][]string{quoted.FindAllStringSubmatch(string(text), -1), displayed.FindAllStringSubmatch(string(text), -1)} {
			for _, found := range all {
				command := strings.Join(found[1:], "")
				joined := strings.Contains(command, `" +`) // of several texts
				if n++; strings.HasPrefix(command, "kubectl zonelect") && !joined && fault(t, command) != "" {
					t.Errorf("%s: %s: %s", name, command, fault(t, command))
				}
			}
		}
	}
	skipped := regexp.MustCompile(`^(\..*|test|build|testdata)$`)
	err := filepath.WalkDir(repository, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != repository && skipped.MatchString(entry.Name()):
			return filepath.SkipDir
		case filepath.Ext(name) == ".md" || filepath.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go"):
			check(name)
		}
		return nil
	})
	if err != nil || n < 50 {
		t.Errorf("%d commands were found, %v", n, err)
	}
}

// TestEveryExampleIsACommand with flags and arguments that there are, and fits into a terminal, as every help does.
func TestEveryExampleIsACommand(t *testing.T) {
	found := 0
	everyCommand(Root(), func(c *cobra.Command) {
		for line := range strings.SplitSeq(c.Long+"\n"+c.Example, "\n") {
			if len([]rune(line)) > 120 {
				t.Errorf("the help of %q has a long line: %s", c.CommandPath(), line)
			}
		}
		for _, m := range regexp.MustCompile(`(?m)^ +(kubectl zonelect [^#|>\n]*)`).FindAllStringSubmatch(c.Example, -1) {
			if found++; fault(t, strings.ReplaceAll(m[1], "'", "")) != "" {
				t.Errorf("an example of %q: %s: %s", c.CommandPath(), m[1], fault(t, m[1]))
			}
		}
	})
	if found < 20 {
		t.Errorf("only %d examples were found", found)
	}
}
