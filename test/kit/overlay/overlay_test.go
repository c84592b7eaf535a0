// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package overlay_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/zonelect/zonelect/test/kit/overlay"
)

func TestOneFileMayBeEditedAtSeveralPlaces(t *testing.T) {
	edit := func(find, by string) overlay.Edit {
		return overlay.Edit{File: "errors/errors.go", Find: regexp.MustCompile(find), By: by}
	}
	dir := t.TempDir()
	file, err := overlay.Write(t.Context(), dir, []overlay.Edit{
		edit(`(?m)^package (errors)\n`, "package ${1} // edited\n"),
		edit(`func New\(text string\) error \{\n`, "${0}\tadded()\n"),
	}, map[string][]byte{"errors/added.go": []byte("package errors\n\nfunc added() {}\n")})
	if err != nil {
		t.Fatal(err)
	}
	read := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	edited, list := read(filepath.Join(dir, "errors/errors.go")), read(file)
	for _, want := range []string{"package errors // edited\n", "func New(text string) error {\n\tadded()\n"} {
		if !strings.Contains(edited, want) {
			t.Errorf("the copy lacks %q", want)
		}
	}
	for _, want := range []string{"errors/errors.go", "errors/added.go"} {
		if strings.Count(list, want) != 2 {
			t.Errorf("%s does not replace %s", list, want)
		}
	}
}

func TestALibraryThatIsAnotherIsSaid(t *testing.T) {
	for _, find := range []string{"func Nowhere", "func "} {
		_, err := overlay.Write(t.Context(), t.TempDir(), []overlay.Edit{{File: "errors/errors.go", Find: regexp.MustCompile(find)}}, nil)
		if err == nil || !strings.Contains(err.Error(), "adapt the edit") {
			t.Errorf("%q: got %v", find, err)
		}
	}
	if _, err := overlay.Write(t.Context(), t.TempDir(), []overlay.Edit{{File: "errors/none.go"}}, nil); err == nil {
		t.Error("a file that does not exist is edited")
	}
}
