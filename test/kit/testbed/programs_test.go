// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheProgramsOfEnvtestAreTakenFirst, and a variable that names none is an error.
func TestTheProgramsOfEnvtestAreTakenFirst(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755)) //nolint:gosec // it is a program
	}
	t.Setenv(AssetsVariable, dir)
	found, err := Found()
	if err != nil || found.etcd[0] != filepath.Join(dir, "etcd") || found.controllers != nil || found.Embedded() {
		t.Errorf("by the variable: %+v, %v", found, err)
	}
	t.Setenv(AssetsVariable, t.TempDir())
	if found, err := Found(); err == nil || !strings.Contains(err.Error(), "setup-envtest use -p path") {
		t.Errorf("by a variable that is wrong: %+v, %v", found, err)
	}
}
