// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "rewrite docs/cli")

// pages is where the repository has the Markdown.
const pages = "../../../../docs/cli"

// read returns the text of each file in a directory.
func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		texts[e.Name()] = string(text)
	}
	return texts
}

func TestDocsCliSaysWhatTheCommandsSay(t *testing.T) {
	dir := t.TempDir()
	if *update {
		dir = pages
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := Markdown(dir); err != nil {
		t.Fatal(err)
	}
	want, got := read(t, dir), read(t, pages)
	for name, text := range want {
		if got[name] != text {
			t.Errorf("docs/cli/%s is not what the commands say: run this test with -update", name)
		}
	}
	for name := range got {
		if _, is := want[name]; !is {
			t.Errorf("docs/cli/%s describes no command: run this test with -update", name)
		}
	}
}

// TestDocsCliRepeatsNoFlagsAndHasNoCompletion: each flag of all commands is on the root's page alone.
func TestDocsCliRepeatsNoFlagsAndHasNoCompletion(t *testing.T) {
	for name, text := range read(t, pages) {
		if root := name == "kubectl_zonelect.md"; strings.Contains(text, "--kubeconfig string") != root {
			t.Errorf("%s has the flags of all commands: %v", name, !root)
		}
		if strings.Contains(name+text, "zonelect_completion") {
			t.Errorf("%s is about completion, or links to it", name)
		}
	}
}

func TestEveryCommandHasAPageThatIsTheSameOnAllMachines(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	dir := t.TempDir()
	if err := Man(dir, "v0.1.0", time.Unix(1e9, 0).UTC()); err != nil {
		t.Fatal(err)
	}
	man := read(t, dir)
	each(documented(), func(c *cobra.Command) {
		page := man[strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"]
		if !strings.Contains(page, `"Sep 2001" "zonelect v0.1.0"`) || !strings.Contains(page, "--namespace") || strings.Contains(page, home) {
			t.Errorf("the page of %s is %q", c.CommandPath(), page)
		}
	})
	if len(man) < 15 {
		t.Errorf("there are only %d pages", len(man))
	}
}

func TestIndentedLinesAreCode(t *testing.T) {
	got := indented("Codes:\n  0  good\n  1  bad\nMore.\n\n  $ run\n\n\t#tab")
	if want := "Codes:\n\n      0  good\n      1  bad\nMore.\n\n      $ run\n\n        #tab"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestThePluginHasNoWriterOfDocuments: neither this package nor what it imports.
func TestThePluginHasNoWriterOfDocuments(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "../..").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	if !slices.Contains(packages, "github.com/spf13/cobra") {
		t.Fatalf("the plugin does not import cobra: %d packages", len(packages))
	}
	for _, p := range packages {
		if strings.HasPrefix(p, "github.com/spf13/cobra/") || strings.HasPrefix(p, "github.com/cpuguy83") || strings.HasSuffix(p, "/internal/reference") {
			t.Errorf("the plugin imports %s", p)
		}
	}
}
