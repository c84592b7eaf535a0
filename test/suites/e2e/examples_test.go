// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !long

package e2e_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/zonelect/zonelect/test/kit/manifests"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// awaitLine waits until a program prints a line that begins like this.
func awaitLine(t *testing.T, ctx context.Context, p *testbed.Process, begins string) testbed.Line {
	t.Helper()
	for line := range p.Lines(ctx) {
		if strings.HasPrefix(line.Text, begins) {
			return line
		}
	}
	logged, _ := os.ReadFile(p.Log())
	t.Fatalf("%q was never printed: %v\n%s", begins, context.Cause(ctx), logged)
	return testbed.Line{}
}

func TestTheExamplesLeadAndHandOver(t *testing.T) {
	b := trial.Bed(t, plain)
	ctx := patience(t, 5*time.Minute)
	for _, example := range []string{"minimal", "controller-runtime"} {
		path, err := testbed.BuildProgram(ctx, "./examples/"+example)
		must(t, err)
		start := func(name string) *testbed.Process {
			spec := testbed.ProcessSpec{Name: example + "-" + name, Path: path, Env: []string{"KUBECONFIG=" + b.Cluster.Kubeconfig("za")}}
			if example == "controller-runtime" {
				spec.Args = []string{"-webhook-port", freePort(t)}
			}
			p, err := b.StartProcess("za", spec)
			must(t, err)
			return p
		}
		first := start("first")
		awaitLine(t, ctx, first, "leading")
		second := start("second")
		must(t, first.Terminate())
		must(t, first.Wait(ctx))
		stopped, led := awaitLine(t, ctx, first, "stopped"), awaitLine(t, ctx, second, "leading")
		gap := led.Time.Sub(stopped.Time)
		t.Logf("%s: handed over in %v", example, gap)
		if gap < 0 || gap > lease/2 {
			t.Errorf("%s: from work stopped to work started it took %v, want less than the lease by far", example, gap)
		}
		must(t, second.Terminate())
		must(t, second.Wait(ctx))
	}
}

// TestTheSidecarsDeploymentsAreAdmitted: what the API server does not know would be refused.
func TestTheSidecarsDeploymentsAreAdmitted(t *testing.T) {
	b := trial.Bed(t, plain)
	k := newKubectl(t, b.Cluster.RESTConfig("za"))
	for _, example := range []string{"command", "poll"} {
		all := manifests.Kustomize(t, "../../../examples/sidecar/"+example)
		for _, o := range all {
			k.apply(t, o)
			if kind := o.GetKind(); (kind == "Role" || kind == "RoleBinding") && o.GetName() == "zonelect-proof" && example == "poll" {
				t.Errorf("%s grants %s %s, which nothing uses", example, kind, o.GetName())
			}
		}
	}
}
