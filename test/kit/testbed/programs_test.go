// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// assets makes a directory with programs that say which version of Kubernetes they are.
func assets(t *testing.T, dir string, programs ...string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range programs {
		script := "#!/bin/sh\necho Kubernetes v1.34.7\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil { //nolint:gosec // it is a program
			t.Fatal(err)
		}
	}
	return dir
}

// TestTheProgramsOfEnvtestAreTakenFirst, the variable's before the store's, of which the newest.
func TestTheProgramsOfEnvtestAreTakenFirst(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the store is elsewhere")
	}
	data := t.TempDir()
	t.Setenv(AssetsVariable, "")
	t.Setenv("XDG_DATA_HOME", data)
	here := "-" + runtime.GOOS + "-" + runtime.GOARCH
	store := filepath.Join(data, "kubebuilder-envtest", "k8s")
	assets(t, filepath.Join(store, "1.9.0"+here), "etcd", "kube-apiserver")
	newest := assets(t, filepath.Join(store, "1.34.7"+here), "etcd", "kube-apiserver")
	assets(t, filepath.Join(store, "1.35.1"+here), "etcd") // a download that was cut off
	assets(t, filepath.Join(store, "1.36.0-plan9-mips"), "etcd", "kube-apiserver")
	found, err := Found()
	if err != nil || found.apiserver[0] != filepath.Join(newest, "kube-apiserver") || found.Controllers() || found.Embedded() {
		t.Errorf("in the store: %+v, %v", found, err)
	}
	if version, err := found.Version(t.Context()); version != "v1.34.7" {
		t.Errorf("its version is %q: %v", version, err)
	}
	named := assets(t, t.TempDir(), "etcd", "kube-apiserver")
	t.Setenv(AssetsVariable, named)
	if found, err = Found(); err != nil || found.etcd[0] != filepath.Join(named, "etcd") || found.From != AssetsVariable {
		t.Errorf("by the variable: %+v, %v", found, err)
	}
	t.Setenv(AssetsVariable, t.TempDir())
	if found, err = Found(); err == nil || !strings.Contains(err.Error(), "setup-envtest use -p path") {
		t.Errorf("by a variable that is wrong: %+v, %v", found, err)
	}
}
