// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs_test holds the documents against the repository.
package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var (
	// command is one that runs chosen tests: where, which, and of what package.
	command  = regexp.MustCompile(`(?:cd ([\w/-]+) && )?(?:[A-Z_]+=\S+ )*go test [^|` + "`" + `\n]*-run '?([^\s']+)'? (\./[\w./-]+)`)
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
)

func TestEveryTestThatADocumentTellsToRunIsThere(t *testing.T) {
	documents, _ := filepath.Glob("*.md") // the pattern is well-formed
	found := 0
	for _, name := range append(documents, "../README.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range command.FindAllStringSubmatch(string(text), -1) {
			found++
			if !hasTest(t, filepath.Join("..", c[1], c[3]), regexp.MustCompile(c[2])) {
				t.Errorf("%s: %s: no such test", name, c[0])
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d commands were found", found)
	}
}

// hasTest reports whether one of the tests and fuzz targets in a directory has a name that fits.
func hasTest(t *testing.T, dir string, name *regexp.Regexp) bool {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(dir, "*_test.go")) // the pattern is well-formed
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range testFunc.FindAllSubmatch(text, -1) {
			if name.Match(f[1]) {
				return true
			}
		}
	}
	return false
}
