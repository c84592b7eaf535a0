// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zonelect/zonelect/test/kit/durations"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// TestAfterASuspensionOnlyWorkThatHangsIsOverdue: a leader is stopped for 25 s. What is left of StopGrace then is
// nothing.
func TestAfterASuspensionOnlyWorkThatHangsIsOverdue(t *testing.T) {
	g := newGround(t, harmless, "suspended")
	for round := range 5 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			for what, delay := range map[string]string{"hangs": "1m", "returns": "0s"} {
				t.Run(what, func(t *testing.T) {
					t.Parallel()
					name := fmt.Sprint(what, "-", round)
					s := g.seat(t, trial.Zonelect, "za", name, name, "--stop-delay", delay)
					await(t, s, "leading", time.Time{})
					time.Sleep(3 * time.Second)
					must(t, s.Pause())
					time.Sleep(25 * time.Second)
					resumed := time.Now()
					must(t, s.Resume())
					await(t, s, "stopping", resumed)
					if what == "returns" {
						await(t, s, "stopped", resumed)
						time.Sleep(time.Second)
					} else {
						took := await(t, s, "error", resumed).Time.Sub(resumed)
						t.Logf("SIGCONT until OnOverrun: %v", took)
						must(t, durations.Record(t.Name(), "SIGCONT until OnOverrun", took))
					}
					overdue := false
					for _, e := range s.Events() {
						overdue = overdue || strings.Contains(e.Error, "did not stop in time")
					}
					if overdue != (what == "hangs") {
						t.Errorf("the work was overdue: %v", overdue)
					}
				})
			}
		})
	}
}
