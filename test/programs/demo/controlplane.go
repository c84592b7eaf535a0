// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/zonelect/zonelect/test/kit/testbed"
)

// choose finds a control plane, compiles one, or takes an embedded API server, and says which.
func choose(ctx context.Context, isReal bool) (programs testbed.Programs, err error) {
	if isReal {
		programs, err = testbed.Built(ctx, "", os.Stdout)
	} else if programs, err = testbed.Found(); errors.Is(err, fs.ErrNotExist) {
		fmt.Println(banner)
		return testbed.Embedded(ctx)
	}
	if err == nil {
		fmt.Printf("Starting etcd and kube-apiserver (from %s) in three zones.\n", programs.From)
	}
	return programs, err
}

// banner is what a demo on an embedded API server begins with.
const banner = `------------------------------------------------------------------------------------------
This runs on an EMBEDDED API SERVER, because no etcd and kube-apiserver were found: one store
in memory, and in each of three zones a front end that dies with the zone. The electors, their
connections and the cut are real. Figures of Kubernetes need the real thing:

    make demo REAL=1      # compiles etcd and Kubernetes first: ten minutes on two cores

or envtest's programs, in the directory that KUBEBUILDER_ASSETS names.
------------------------------------------------------------------------------------------`
