// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"regexp"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/test/kit/durations"
)

// promised is a promise as demo prints it, and figured its figure, with the largest one that keeps it.
var (
	promised = regexp.MustCompile(`(?m)^([✓✗?]) \S+ .*$`)
	figured  = regexp.MustCompile(`(\S+) after .* \(at most (\S+)\)$`)
)

// TestADemoKeepsItsPromisesWithTheRightsThatItNames, those of config/people/demo, in less than a minute, and leaves
// nothing. Whoever has no rights is told so. On a busy machine a figure may be two seconds above what the demo allows.
func TestADemoKeepsItsPromisesWithTheRightsThatItNames(t *testing.T) {
	g := newGround(t, harmless, "demo")
	ctx := patience(t, 2*soon)
	g.plugin(t, "stranger").run(t, ctx, exitError, "demo", "ClusterRole zonelect-demo grants that")
	began := time.Now()
	said, err := g.plugin(t, "newcomer", "demo").command(ctx, "demo").Output() // the exit code is as its figures are
	promises := promised.FindAllStringSubmatch(string(said), -1)
	if len(promises) != 7 {
		t.Fatalf("it ends with %v and prints %s", err, said)
	}
	for _, p := range promises {
		t.Log(p[0])
		busy := false
		if figures := figured.FindStringSubmatch(p[0]); figures != nil {
			took, err := time.ParseDuration(figures[1])
			must(t, err)
			allowed, err := time.ParseDuration(figures[2])
			must(t, err)
			busy = took <= allowed+2*time.Second
		}
		if p[1] != "✓" && !busy {
			t.Error(p[0])
		}
	}
	must(t, durations.Record(t.Name(), "the whole demo", time.Since(began)))
	left, err := g.client.CoordinationV1().Leases(g.namespace).List(ctx, metav1.ListOptions{})
	if must(t, err); len(left.Items) > 0 {
		t.Errorf("left behind: %v", left.Items)
	}
}
