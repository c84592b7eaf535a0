// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package examples_test checks that moving to zonelect takes as little as the docs say.
package examples_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pmezard/go-difflib/difflib"
)

var update = flag.Bool("update", false, "write the diffs into the pages of docs")

// pages show the diffs of moves.
var pages = map[string]string{"migration": "../docs/adopt-leader-for-life.md", "kubebuilder": "../docs/adopt-kubebuilder.md"}

// moves are the examples that have a before and an after, and how many lines
// their diff may change.
var moves = map[string]int{"migration": 16, "kubebuilder": 10}

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

func TestAMoveToZonelectIsASmallDiff(t *testing.T) {
	for example, most := range moves {
		text, lines := diff(t, example)
		t.Logf("%s: %d lines", example, lines)
		if lines == 0 || lines > most {
			t.Errorf("the move of %s changes %d lines, want %d at most:\n%s", example, lines, most, text)
		}
	}
}

func TestBothSidesOfAMoveCompile(t *testing.T) {
	for example := range moves {
		if out, err := exec.Command("go", "build", "./"+example+"/...").CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", example, err, out)
		}
	}
}

func TestTheDocsShowTheDiffsThatAreCompiled(t *testing.T) {
	for example, page := range pages {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := diff(t, example)
		// The block after the comment that names the example.
		block := regexp.MustCompile("(?s)(<!-- diff of examples/" + example + " -->\n```diff\n)(.*?)(\n```)")
		shown := block.FindStringSubmatch(string(raw))
		switch {
		case shown == nil:
			t.Errorf("%s has no diff of examples/%s", page, example)
		case shown[2] != want && *update:
			text := strings.Replace(string(raw), shown[0], shown[1]+want+shown[3], 1)
			if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		case shown[2] != want:
			t.Errorf("%s shows another diff of examples/%s: go test -update writes the right one:\n%s", page, example, want)
		}
	}
}
