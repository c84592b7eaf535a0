// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the repository, through a link: go test watches only files of the
// module, and would keep a cached result whatever happened to other files.
const root = "testdata/repository"

// TestNoMutantHasRotted: the text that each mutant changes is still there, its test exists, and no other
// mutant is the same.
func TestNoMutantHasRotted(t *testing.T) {
	t.Parallel()
	first := map[[3]string]string{}
	for _, m := range mutants {
		text, err := os.ReadFile(filepath.Join(root, m.file))
		if err != nil {
			t.Error(err)
		}
		if _, err := m.applied(string(text)); err != nil {
			t.Error(err)
		}
		if dir, name := path.Split(m.by); !strings.HasPrefix(name, "Test") || !declares(dir, name) {
			t.Errorf("%s: %s: %s has no %s", m.rule, m.broken, dir, name)
		}
		change := [3]string{m.file, m.old, m.new}
		if first[change] != "" {
			t.Errorf("%q is %q again", m.broken, first[change])
		}
		first[change] = m.broken
	}
}

func declares(dir, test string) bool {
	files, _ := filepath.Glob(filepath.Join(root, dir, "*_test.go")) // the pattern is well-formed
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), "\nfunc "+test+"(")
	})
}

func TestEveryRuleHasAMutant(t *testing.T) {
	t.Parallel()
	var rules [][]string
	for _, name := range []string{"docs/design.md", "docs/design-migration.md"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, regexp.MustCompile(`(?m)^- \*\*([SML]\d+)\*\* `).FindAllStringSubmatch(string(text), -1)...)
	}
	if len(rules) != 24 {
		t.Errorf("the documents have %d rules, want S1-S12 and M1-M12", len(rules))
	}
	for _, rule := range rules {
		if !slices.ContainsFunc(mutants, func(m mutant) bool { return m.rule == rule[1] }) {
			t.Errorf("no mutant breaks %s", rule[1])
		}
	}
}

func TestOnlyTheFailureOfItsTestKillsAMutant(t *testing.T) {
	t.Parallel()
	fail, pass := event{Action: "fail", Test: "TestX"}, event{Action: "pass", Test: "TestX"}
	says := func(text string) event { return event{Action: "output", Output: text} }
	for name, c := range map[string]struct {
		events []event
		want   verdict
	}{
		"it fails":             {[]event{says("    x_test.go:1: panic: in words\n"), fail}, killed},
		"it passes":            {[]event{pass}, survived},
		"another fails":        {[]event{{Action: "fail", Test: "TestXY"}, pass}, survived},
		"a part of it fails":   {[]event{{Action: "fail", Test: "TestX/a"}, fail}, killed},
		"the package fails":    {[]event{{Action: "fail"}}, notRun},
		"it is skipped":        {[]event{{Action: "skip", Test: "TestX"}}, notRun},
		"it does not build":    {[]event{{Action: "build-fail"}, {Action: "fail"}}, crashed},
		"it panics":            {[]event{says("panic: nil map\n"), fail}, crashed},
		"it hangs":             {[]event{says("panic: test timed out after 1s\n"), fail}, crashed},
		"the runtime gives up": {[]event{says("fatal error: all goroutines are asleep\n"), fail}, crashed},
	} {
		if got := judge(c.events, "TestX"); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
