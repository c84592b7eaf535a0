// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package examples_test checks that moving to zonelect takes as little as the docs say.
package examples_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pmezard/go-difflib/difflib"
)

var update = flag.Bool("update", false, "write the diffs into the pages of docs")

// moves are the examples of a move: the page that shows its diff, and how many lines it may change.
var moves = map[string]struct {
	page string
	most int
}{
	"migration":   {"../docs/adopt-leader-for-life.md", 16},
	"kubebuilder": {"../docs/adopt-kubebuilder.md", 10},
}

func read(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// before returns the lines of an example as they were before its move. That of kubebuilder, which kubebuilder generates,
// is the one that the diff in the docs was made from.
func before(t *testing.T, example, shown string) []string {
	t.Helper()
	if example == "migration" {
		return difflib.SplitLines(read(t, "migration/before/main.go"))
	}
	after := difflib.SplitLines(read(t, filepath.Join(example, "after/main.go")))
	var lines []string
	at := 0 // in after
	for _, line := range difflib.SplitLines(shown)[2:] {
		switch {
		case strings.HasPrefix(line, "@@"):
			var first int
			if _, err := fmt.Sscanf(strings.Fields(line)[2], "+%d", &first); err != nil {
				t.Fatal(err)
			}
			lines, at = append(lines, after[at:first-1]...), first-1
		case strings.HasPrefix(line, "-"):
			lines = append(lines, line[1:])
		case at == len(after) || line[1:] != after[at]:
			t.Fatalf("the diff of examples/%s has a line that the program does not have there: %s", example, line)
		default:
			if strings.HasPrefix(line, " ") {
				lines = append(lines, after[at])
			}
			at++
		}
	}
	return append(lines, after[at:]...)
}

// diff returns the unified diff of an example, and how many lines it changes.
func diff(t *testing.T, example, shown string) (text string, lines int) {
	t.Helper()
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: before(t, example, shown), FromFile: "before/main.go",
		B: difflib.SplitLines(read(t, filepath.Join(example, "after/main.go"))), ToFile: "after/main.go",
		Context: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	lines = len(regexp.MustCompile("(?m)^[-+]").FindAllString(text, -1)) - 2 // two are headers
	return strings.TrimSpace(text), lines
}

// shown returns the diff of an example in the docs: the block after the comment that names the example.
func shown(t *testing.T, example string) (page, text string) {
	t.Helper()
	page = read(t, moves[example].page)
	block := regexp.MustCompile("(?s)<!-- diff of examples/" + example + " -->\n```diff\n(.*?)\n```").FindStringSubmatch(page)
	if block == nil {
		t.Fatalf("%s has no diff of examples/%s", moves[example].page, example)
	}
	return page, block[1]
}

func TestAMoveToZonelectIsASmallDiffThatTheDocsShow(t *testing.T) {
	for example, move := range moves {
		page, is := shown(t, example)
		want, lines := diff(t, example, is)
		if lines == 0 || lines > move.most {
			t.Errorf("the move of %s changes %d lines, want %d at most:\n%s", example, lines, move.most, want)
		}
		switch {
		case is == want:
		case *update:
			if err := os.WriteFile(move.page, []byte(strings.Replace(page, is, want, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
		default:
			t.Errorf("%s shows another diff of examples/%s: go test -update writes the right one:\n%s", move.page, example, want)
		}
	}
}

func TestWhatKubebuilderGeneratesBuilds(t *testing.T) {
	_, is := shown(t, "kubebuilder")
	dir := t.TempDir()
	program, overlay := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json")
	for name, text := range map[string]string{
		program: strings.Join(before(t, "kubebuilder", is), ""),
		overlay: fmt.Sprintf(`{"Replace":{"kubebuilder/after/main.go":%q}}`, program),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "go", "vet", "-overlay="+overlay, "./kubebuilder/after").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestTheReconcilersOfTheExamplesAreGuarded: people copy them. The manager that Lead gives has a guarded client.
func TestTheReconcilersOfTheExamplesAreGuarded(t *testing.T) {
	guarded := regexp.MustCompile(`\.Lead\(func\(mgr|\.Wrap\(term\.Guard\)`)
	for _, example := range []string{"kubebuilder/after", "migration/after"} {
		if !guarded.MatchString(read(t, filepath.Join(example, "main.go"))) {
			t.Errorf("the reconciler of examples/%s writes after its term", example)
		}
	}
}
