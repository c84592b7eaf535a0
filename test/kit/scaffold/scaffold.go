// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scaffold makes projects as kubebuilder's users do, with its own program. operator-sdk
// makes the same for Go.
package scaffold

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zonelect/zonelect/test/kit/testbed"
)

// module has the programs.
const module = "test/programs/kubebuilder"

// Variants are the projects that there are, by name: whether each has webhooks.
var Variants = map[string]bool{"plain": false, "webhooks": true}

// New makes a project with an API and a controller, and webhooks if wanted, and returns its
// directory. It downloads nothing for the project.
func New(t *testing.T, webhooks bool) (dir string) {
	t.Helper()
	kubebuilder := build(t, "sigs.k8s.io/kubebuilder/v4", "kubebuilder")
	generator := build(t, "sigs.k8s.io/controller-tools/cmd/controller-gen", "controller-gen")
	dir = filepath.Join(t.TempDir(), "guestbook")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	run(t, dir, kubebuilder, "init", "--domain", "example.com", "--repo", "example.com/guestbook",
		"--fetch-deps=false", "--skip-go-version-check")
	guest := []string{"--group", "apps", "--version", "v1", "--kind", "Guest", "--make=false"}
	run(t, dir, kubebuilder, append([]string{"create", "api", "--resource", "--controller"}, guest...)...)
	if webhooks {
		run(t, dir, kubebuilder, append([]string{"create", "webhook", "--defaulting", "--programmatic-validation"}, guest...)...)
	}
	// As make manifests does.
	run(t, dir, generator, "rbac:roleName=manager-role", "crd", "webhook", "paths=./...", "output:crd:artifacts:config=config/crd/bases")
	return dir
}

// AddElection adds config/kubebuilder to a project by one line, and returns the directory to apply.
func AddElection(t *testing.T, project string) (apply string) {
	t.Helper()
	root, err := testbed.Root()
	if err != nil {
		t.Fatal(err)
	}
	apply = filepath.Join(project, "config", "default")
	component, err := filepath.Rel(apply, filepath.Join(root, "config", "kubebuilder"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(apply, "kustomization.yaml")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.TrimRight(string(before), "\n")+"\ncomponents: ["+component+"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return apply
}

func build(t *testing.T, tool, name string) string {
	t.Helper()
	path, err := testbed.BuildTool(t.Context(), module, tool, name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func run(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(program), strings.Join(args, " "), err, out)
	}
}
