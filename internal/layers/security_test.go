// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheThreatModelNamesTestsThatThereAre: each of its claims depends on one.
func TestTheThreatModelNamesTestsThatThereAre(t *testing.T) {
	const root = "../.."
	model, err := os.ReadFile(root + "/docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		source, err := os.ReadFile(name)
		all.Write(source)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\b(Test|Fuzz)\w+`).FindAllString(string(model), -1)
	for _, name := range named {
		if !strings.Contains(all.String(), "func "+name+"(") {
			t.Errorf("there is no %s", name)
		}
	}
	if len(named) < 20 {
		t.Errorf("it names %d tests", len(named))
	}
}
