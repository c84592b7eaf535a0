// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTheTableOfKubernetesHasTheVersionsThatAreTested: the newest one, by the module of the tests'
// control plane, and those that "make compat" builds.
func TestTheTableOfKubernetesHasTheVersionsThatAreTested(t *testing.T) {
	source := filepath.Join("..", "test", "programs", "controlplane")
	older, err := filepath.Glob(filepath.Join(source, "v*.mod"))
	if err != nil || len(older) == 0 {
		t.Fatalf("no versions besides the newest: %v", err)
	}
	var tested []string
	for _, file := range older {
		tested = append(tested, strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "v"), ".mod"))
	}
	module, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	newest := regexp.MustCompile(`k8s\.io/kubernetes v(\S+)`).FindSubmatch(module)
	if newest == nil {
		t.Fatal("the control plane requires no version of Kubernetes")
	}
	tested = append(tested, string(newest[1]))
	text, err := os.ReadFile("compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Kubernetes\n")
	var listed []string
	for _, row := range regexp.MustCompile(`(?m)^\| (1\.\d+\.[^|]*) \|`).FindAllStringSubmatch(section, -1) {
		listed = append(listed, strings.Split(row[1], ", ")...)
	}
	slices.Sort(tested)
	slices.Sort(listed)
	if !slices.Equal(listed, tested) {
		t.Errorf("the table lists %q, and the tests run on %q", listed, tested)
	}
}
