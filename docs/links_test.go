// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

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

// documents returns the text of every document of the repository, by its path from the
// top.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		switch hidden := len(entry.Name()) > 2 && strings.HasPrefix(entry.Name(), "."); {
		case err != nil:
			return err
		case entry.IsDir() && (hidden || entry.Name() == "build"):
			return filepath.SkipDir
		case filepath.Ext(name) != ".md":
			return nil
		}
		text, err := os.ReadFile(name)
		texts[filepath.ToSlash(strings.TrimPrefix(name, ".."+string(filepath.Separator)))] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
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

func TestEveryLinkOfADocumentLeadsSomewhere(t *testing.T) {
	texts := documents(t)
	if len(texts) < 20 {
		t.Errorf("only %d documents were found", len(texts))
	}
	for name, text := range texts {
		for _, l := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(l[1], "://") {
				continue
			}
			path, fragment, _ := strings.Cut(l[1], "#")
			target := name
			if path != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(name), path))
			}
			if _, err := os.Stat(filepath.Join("..", target)); err != nil {
				t.Errorf("%s: %s: %v", name, l[1], err)
			}
			if fragment != "" && !slices.Contains(anchors(texts[target]), fragment) {
				t.Errorf("%s: %s: no such heading", name, l[1])
			}
		}
	}
}

func TestTheReadmeLinksToEveryDocument(t *testing.T) {
	texts := documents(t)
	for name := range texts {
		if filepath.ToSlash(filepath.Dir(name)) == "docs" && !strings.Contains(texts["README.md"], "("+name+")") {
			t.Errorf("the README has no link to %s", name)
		}
	}
}

// TestThePageOfAnnotationsHasEachOne that the code reads or writes.
func TestThePageOfAnnotationsHasEachOne(t *testing.T) {
	page := string(read(t, "annotations.md"))
	found := 0
	for _, dir := range []string{"internal", "locks"} {
		err := filepath.WalkDir(filepath.Join("..", dir), func(name string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
				return err
			}
			code, err := os.ReadFile(name)
			for _, a := range regexp.MustCompile(`"zonelect\.dev(/[a-z-]+)"`).FindAllSubmatch(code, -1) {
				found++
				if !strings.Contains(page, string(a[1])+"`") {
					t.Errorf("%s: the page of annotations has no zonelect.dev%s", name, a[1])
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 20 {
		t.Errorf("only %d annotations were found", found)
	}
}

// TestEveryModuleIsListed for those who change it.
func TestEveryModuleIsListed(t *testing.T) {
	found := 0
	for _, name := range []string{"../CONTRIBUTING.md"} {
		text := string(read(t, name))
		err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
			module := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../")
			switch {
			case err != nil:
				return err
			case d.IsDir() && (d.Name() == "build" || d.Name() == "testdata" || d.Name() == ".git"):
				return fs.SkipDir
			case d.Name() == "go.mod" && module != "..":
				found++
				if !strings.Contains(text, "`"+module+"`") && !strings.Contains(text, "["+module+"]") {
					t.Errorf("%s does not name the module %s", name, module)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 10 {
		t.Errorf("only %d modules were found", found)
	}
}
