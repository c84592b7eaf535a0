// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// choose finds a control plane, compiles one, or takes an embedded API server.
func choose(ctx context.Context, isReal, isEmbedded bool) (testbed.Programs, error) {
	if isReal {
		return testbed.Built(ctx, "", os.Stdout)
	}
	if !isEmbedded {
		found, err := testbed.Found()
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return found, err
		}
	}
	return testbed.Embedded(ctx)
}

// describe says what a demo runs on.
func describe(ctx context.Context, programs testbed.Programs) (string, error) {
	if programs.Embedded() {
		return banner, nil
	}
	version, err := programs.Version(ctx)
	return fmt.Sprintf("Starting etcd and kube-apiserver %s (from %s) in three zones.", version, programs.From), err
}

// banner is what a demo on an embedded API server begins with.
const banner = `------------------------------------------------------------------------------------------
This runs on an EMBEDDED API SERVER, because no etcd and kube-apiserver were found: one store
in memory, and in each of three zones a front end that dies with the zone. The electors, their
connections and the cut are real. Figures of Kubernetes need the real thing:

    make demo REAL=1      # compiles etcd and Kubernetes first: ten minutes on two cores

or envtest's programs, which "setup-envtest use" downloads.
------------------------------------------------------------------------------------------`

// kinds are the programs of teams.
func kinds(all []*team) (programs []trial.Kind) {
	for _, t := range all {
		if !slices.Contains(programs, t.kind) {
			programs = append(programs, t.kind)
		}
	}
	return programs
}
