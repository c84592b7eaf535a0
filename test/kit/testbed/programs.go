// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// AssetsVariable is the environment variable with the directory of the programs that
// controller-runtime's envtest uses.
const AssetsVariable = "KUBEBUILDER_ASSETS"

// Programs are the programs of a control plane. Built, Found and Embedded return them.
type Programs struct {
	// From says where they come from.
	From string

	etcd, apiserver, controllers []string // command lines, without the testbed's flags
}

// Embedded reports whether an API server in memory stands in for etcd and the API servers.
func (p Programs) Embedded() bool { return p.apiserver != nil && p.etcd == nil }

// Built returns the programs that Build makes.
func Built(ctx context.Context, version string, progress io.Writer) (Programs, error) {
	path, err := Build(ctx, version, progress)
	return inOne(path), err
}

// inOne returns the roles of the repository's own program.
func inOne(path string) Programs {
	return Programs{
		From: "the cache",
		etcd: []string{path, "etcd"}, apiserver: []string{path, "apiserver"}, controllers: []string{path, "kcm"},
	}
}

// Found returns programs that are there already: those of KUBEBUILDER_ASSETS, or those that Build made. If there are
// none, the error is fs.ErrNotExist. A variable that names a directory without them is an error.
func Found() (Programs, error) {
	if dir := os.Getenv(AssetsVariable); dir != "" {
		p, err := envtest(dir)
		if err != nil {
			return p, fmt.Errorf("%s is %s: %w; unset it, or set it to what \"setup-envtest use -p path\" prints", AssetsVariable, dir, err)
		}
		p.From = AssetsVariable
		return p, nil
	}
	root, err := Root()
	if err != nil {
		return Programs{}, err
	}
	path, err := cached(filepath.Join(root, "test", "programs", "controlplane"), "go.mod")
	if err != nil {
		return Programs{}, err
	}
	if _, err := os.Stat(path); err != nil {
		return Programs{}, fmt.Errorf("find a control plane in %s or the cache: %w", AssetsVariable, err)
	}
	return inOne(path), nil
}

// envtest returns the programs in a directory of envtest's, which has no kube-controller-manager.
func envtest(dir string) (Programs, error) {
	p := Programs{etcd: []string{filepath.Join(dir, "etcd")}, apiserver: []string{filepath.Join(dir, "kube-apiserver")}}
	for _, argv := range [][]string{p.etcd, p.apiserver} {
		if _, err := exec.LookPath(argv[0]); err != nil {
			return Programs{}, fmt.Errorf("there is no program %s", filepath.Base(argv[0]))
		}
	}
	return p, nil
}
