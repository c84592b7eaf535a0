// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package examples_test checks that moving to zonelect takes as little as the docs say.
package examples_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pmezard/go-difflib/difflib"
)

var update = flag.Bool("update", false, "write the diffs into the pages of docs")

// moves are the examples that have a before and an after: the page that shows their diff, and how many lines it
// may change.
var moves = map[string]struct {
	page string
	most int
}{
	"migration":   {"../docs/adopt-leader-for-life.md", 16},
	"kubebuilder": {"../docs/adopt-kubebuilder.md", 10},
}

// diff returns the unified diff of an example, and how many lines it changes.
func diff(t *testing.T, example string) (text string, lines int) {
	t.Helper()
	side := func(name string) []string {
		raw, err := os.ReadFile(filepath.Join(example, name, "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		return difflib.SplitLines(string(raw))
	}
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: side("before"), FromFile: "before/main.go",
		B: side("after"), ToFile: "after/main.go",
		Context: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(text, "\n") {
		if i >= 2 && (strings.HasPrefix(line, "+") || strings.HasPrefix(line, "-")) { // two lines are headers
			lines++
		}
	}
	return strings.TrimSpace(text), lines
}

func TestAMoveToZonelectIsASmallDiffThatTheDocsShow(t *testing.T) {
	for example, move := range moves {
		want, lines := diff(t, example)
		if lines == 0 || lines > move.most {
			t.Errorf("the move of %s changes %d lines, want %d at most:\n%s", example, lines, move.most, want)
		}
		raw, err := os.ReadFile(move.page)
		if err != nil {
			t.Fatal(err)
		}
		// The block after the comment that names the example.
		block := regexp.MustCompile("(?s)(<!-- diff of examples/" + example + " -->\n```diff\n)(.*?)(\n```)")
		shown := block.FindStringSubmatch(string(raw))
		switch {
		case shown == nil:
			t.Errorf("%s has no diff of examples/%s", move.page, example)
		case shown[2] != want && *update:
			text := strings.Replace(string(raw), shown[0], shown[1]+want+shown[3], 1)
			if err := os.WriteFile(move.page, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		case shown[2] != want:
			t.Errorf("%s shows another diff of examples/%s: go test -update writes the right one:\n%s", move.page, example, want)
		}
	}
}

// TestTheReconcilersOfTheExamplesAreGuarded: people copy them. The manager that Lead gives has a guarded client.
func TestTheReconcilersOfTheExamplesAreGuarded(t *testing.T) {
	guarded := regexp.MustCompile(`\.Lead\(func\(mgr|\.Wrap\(term\.Guard\)`)
	for _, example := range []string{"kubebuilder/after", "migration/after"} {
		raw, err := os.ReadFile(filepath.Join(example, "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		if !guarded.Match(raw) {
			t.Errorf("the reconciler of examples/%s writes after its term", example)
		}
	}
}
