// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheCacheHasAnotherProgramForOtherSources(t *testing.T) {
	dir := t.TempDir()
	files := []string{"main.go", "v1.mod", "v1.sum"}
	write := func(file, text string) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range files {
		write(file, "")
	}
	names := map[string]string{}
	for _, file := range append(files, "README.md") {
		before, err := cached(dir, "v1.mod")
		if err != nil {
			t.Fatal(err)
		}
		write(file, "changed")
		after, err := cached(dir, "v1.mod")
		if wants := file != "README.md"; err != nil || (before != after) != wants || names[after] != "" && wants {
			t.Errorf("%s changed: %s after %s (%v)", file, after, before, err)
		}
		names[after] = file
	}
	if path, err := cached(t.TempDir(), "v1.mod"); err == nil {
		t.Errorf("nothing gave %s", path)
	}
}

func TestEachVersionOfKubernetesIsWhatItsFileIsNamedFor(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "programs", "controlplane", "v*.mod"))
	if err != nil || len(files) == 0 {
		t.Fatalf("versions of the control plane: %v (%v)", files, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		version := strings.TrimSuffix(filepath.Base(file), ".mod")
		if !strings.Contains(string(content), "\tk8s.io/kubernetes "+version+"\n") {
			t.Errorf("%s does not require it", file)
		}
		for line := range strings.Lines(string(content)) {
			_, staged, replaced := strings.Cut(line, " => k8s.io/")
			if want := " " + strings.Replace(version, "v1.", "v0.", 1) + "\n"; replaced && !strings.HasSuffix(staged, want) {
				t.Errorf("%s has a part of another version: %s", file, line)
			}
		}
	}
}
