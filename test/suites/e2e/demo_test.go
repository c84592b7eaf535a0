// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/test/kit/durations"
)

// TestADemoKeepsItsPromisesWithTheRightsThatItNames, those of config/people/demo, in less than a minute, and leaves
// nothing. Whoever has no rights is told so. On a busy machine a figure may be two seconds above what the demo allows.
func TestADemoKeepsItsPromisesWithTheRightsThatItNames(t *testing.T) {
	g := newGround(t, harmless, "demo")
	ctx := patience(t, 2*soon)
	g.plugin(t, "stranger").run(t, ctx, exitError, "demo", "ClusterRole zonelect-demo grants that")
	began := time.Now()
	said, err := g.plugin(t, "newcomer", "demo").command(ctx, "demo", "--output=json").Output() // the exit code is as its figures are
	var report struct {
		Promises []struct {
			Name, Result, Text string
			Milliseconds       *int64
			Allowed            *int64 `json:"allowedMilliseconds"`
		}
	}
	if wrong := json.Unmarshal(said, &report); wrong != nil || len(report.Promises) != 7 {
		t.Fatalf("it ends with %v and prints %s: %v", err, said, wrong)
	}
	for _, p := range report.Promises {
		t.Logf("%s is %s: %s", p.Name, p.Result, p.Text)
		busy := p.Milliseconds != nil && *p.Milliseconds <= *p.Allowed+2000
		if p.Result != "kept" && !busy {
			t.Errorf("%s is %s: %s", p.Name, p.Result, p.Text)
		}
	}
	must(t, durations.Record(t.Name(), "the whole demo", time.Since(began)))
	left, err := g.client.CoordinationV1().Leases(g.namespace).List(ctx, metav1.ListOptions{})
	if must(t, err); len(left.Items) > 0 {
		t.Errorf("left behind: %v", left.Items)
	}
}
