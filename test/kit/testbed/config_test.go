// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheCacheHasAnotherProgramForOtherSources(t *testing.T) {
	dir, files, programs := t.TempDir(), []string{"main.go", "v1.mod", "v1.sum"}, map[string]bool{}
	for _, changed := range append(files, "") {
		for _, file := range files {
			must(t, os.WriteFile(filepath.Join(dir, file), fmt.Append(nil, file == changed), 0o600))
		}
		path, err := cached(dir, "v1.mod")
		if err != nil || programs[path] {
			t.Errorf("%q changed: %s again (%v)", changed, path, err)
		}
		programs[path] = true
	}
}

func TestEachVersionOfKubernetesIsWhatItsFileIsNamedFor(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "programs", "controlplane", "v*.mod"))
	if err != nil || len(files) == 0 {
		t.Fatalf("versions of the control plane: %v (%v)", files, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		must(t, err)
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
