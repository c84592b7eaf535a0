// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs_test holds the documents against the repository.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// files returns the text of every file of the repository with such an end, by its path from the top.
func files(t *testing.T, end string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		switch hidden := len(entry.Name()) > 2 && strings.HasPrefix(entry.Name(), "."); {
		case err != nil:
			return err
		case entry.IsDir() && (hidden || entry.Name() == "build"):
			return filepath.SkipDir
		case strings.HasSuffix(name, end):
			texts[strings.TrimPrefix(filepath.ToSlash(name), "../")] = read(t, name)
		}
		return nil
	})
	if err != nil || len(texts) < 20 {
		t.Fatalf("%d files end in %s: %v", len(texts), end, err)
	}
	return texts
}

func documents(t *testing.T) map[string]string {
	t.Helper()
	return files(t, ".md")
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noSlug  = regexp.MustCompile(`[^\w\- ]`)
)

// anchors returns the fragments by which the headings of a document can be linked.
func anchors(text string) (all []string) {
	for _, h := range heading.FindAllStringSubmatch(text, -1) {
		all = append(all, strings.ReplaceAll(noSlug.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
	}
	return all
}

// TestEveryLinkOfADocumentLeadsSomewhere, some link leads to each picture, and one of the README to each document.
func TestEveryLinkOfADocumentLeadsSomewhere(t *testing.T) {
	texts := documents(t)
	linked := map[string]bool{}
	for name, text := range texts {
		if filepath.Dir(name) == "docs" && !strings.Contains(texts["README.md"], "("+name+")") {
			t.Errorf("the README has no link to %s", name)
		}
		for _, l := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(l[1], "://") {
				continue
			}
			path, fragment, _ := strings.Cut(l[1], "#")
			target := name
			if path != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(name), path))
			}
			linked[target] = true
			if _, err := os.Stat(filepath.Join("..", target)); err != nil {
				t.Errorf("%s: %s: %v", name, l[1], err)
			}
			if fragment != "" && !slices.Contains(anchors(texts[target]), fragment) {
				t.Errorf("%s: %s: no such heading", name, l[1])
			}
		}
	}
	pictures, _ := filepath.Glob("pictures/*.svg")
	for _, picture := range pictures {
		if !linked["docs/"+picture] {
			t.Errorf("no document shows %s", picture)
		}
	}
}

// TestEveryTestThatADocumentNamesIsThere, and so is every target of make, and what a command runs or applies. A
// document may shorten the name after -run.
func TestEveryTestThatADocumentNamesIsThere(t *testing.T) {
	makefile := read(t, "../Makefile")
	command := regexp.MustCompile("(?:`|    |& )(?:make ([a-z]+)|(?:go run|go install|kubectl apply -k|kubectl kustomize) ([.ce][\\w./-]+))")
	var all strings.Builder
	for _, text := range files(t, "_test.go") {
		all.WriteString(text)
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w+)`|-run[ =]'?\\^?((?:Test|Fuzz)\\w+)")
	past := regexp.MustCompile(`git checkout .*`)
	for name, text := range documents(t) {
		text = strings.ReplaceAll(past.ReplaceAllString(text, ""), "./suites/", "./test/suites/")
		for _, n := range command.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat("../" + n[2]); err != nil || !strings.Contains(makefile, "\n"+n[1]) {
				t.Errorf("%s names %q: there is none", name, n[0])
			}
		}
		for _, n := range named.FindAllStringSubmatch(text, -1) {
			want := n[2]
			if n[1] != "" {
				want = n[1] + "("
			}
			if !strings.Contains(all.String(), "\nfunc "+want) {
				t.Errorf("%s names the test %s: there is none", name, n[0])
			}
		}
	}
}
