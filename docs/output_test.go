// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	shown   = regexp.MustCompile("(?s)(?:<!-- output of ([a-z0-9-]+) -->\n)?```console\n(.*?)```")
	omitted = "..."
)

// follows reports whether output has the lines of a block in this order. A line of three dots stands
// for any number of lines, three dots at the end of a line for its rest.
func follows(block, output []string) bool {
	if len(block) == 0 {
		return true
	}
	if block[0] == omitted {
		return follows(block[1:], output) || len(output) > 0 && follows(block, output[1:])
	}
	if len(output) == 0 {
		return false
	}
	begin, shortened := strings.CutSuffix(block[0], omitted)
	same := block[0] == output[0] || shortened && strings.HasPrefix(output[0], begin)
	return same && follows(block[1:], output[1:])
}

// TestTheOutputThatADocumentShowsIsThatOfTheCommand: each block of a console shows commands of the plugin, and what a
// golden file of the plugin's tests has. The comment above the block names the file.
func TestTheOutputThatADocumentShowsIsThatOfTheCommand(t *testing.T) {
	found := 0
	for name, text := range documents(t) {
		if dir := filepath.Dir(name); dir != "docs" && dir != "." {
			continue
		}
		for _, block := range shown.FindAllStringSubmatch(text, -1) {
			found++
			if block[1] == "" {
				t.Errorf("%s: no comment says which golden file has this output:\n%s", name, block[2])
				continue
			}
			golden := read(t, filepath.Join("../cmd/kubectl-zonelect/command/testdata", block[1]+".golden"))
			lines := func(text string) []string {
				return slices.DeleteFunc(strings.Split(strings.TrimSpace(text), "\n"), func(line string) bool {
					return strings.HasPrefix(line, "$ ") || strings.HasPrefix(line, "--- ")
				})
			}
			if !follows(append(lines(block[2]), omitted), lines(golden)) {
				t.Errorf("%s shows another output than %s.golden has:\n%s", name, block[1], block[2])
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d outputs were found", found)
	}
}
