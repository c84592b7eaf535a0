// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs_test holds the documents against the repository.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// command is one that runs chosen tests: where, which, and of what package.
	command  = regexp.MustCompile(`(?:cd ([\w/-]+) && )?(?:[A-Z_]+=\S+ )*go test [^|` + "`" + `\n]*-run '?([^\s']+)'? (\./[\w./-]+)`)
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
)

func TestEveryTestThatADocumentTellsToRunIsThere(t *testing.T) {
	found := 0
	for name, text := range documents(t) {
		for _, c := range command.FindAllStringSubmatch(text, -1) {
			found++
			if !hasTest(t, filepath.Join("..", c[1], c[3]), regexp.MustCompile(c[2])) {
				t.Errorf("%s: %s: no such test", name, c[0])
			}
		}
	}
	if found == 0 {
		t.Error("no command was found")
	}
}

// TestEveryTestThatADocumentNamesIsThere: a document may shorten a name after -run alone.
func TestEveryTestThatADocumentNamesIsThere(t *testing.T) {
	all := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "build" || d.Name() == ".git"):
			return fs.SkipDir
		case strings.HasSuffix(path, "_test.go"):
			for _, f := range testFunc.FindAllSubmatch(read(t, path), -1) {
				all[string(f[1])] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for name, text := range documents(t) {
		for _, quoted := range regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w+)`").FindAllStringSubmatch(text, -1) {
			found++
			if !all[quoted[1]] {
				t.Errorf("%s: %s: no such test", name, quoted[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d names were found", found)
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
