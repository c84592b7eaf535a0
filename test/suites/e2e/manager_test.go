// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zonelect/zonelect/test/kit/durations"
	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/trial"
)

func TestAManagerThatLosesItsLeadershipDoesNotWaitForItsWork(t *testing.T) {
	g := newGround(t, harmless, "lost")
	enter := func(name string) *trial.Seat {
		return g.seat(t, trial.Manager, "za", g.named("lock"), name, append([]string{"--stop-delay=20s"}, quickly...)...)
	}
	old := enter("old")
	await(t, old, "leading", time.Time{})
	next := enter("next")
	await(t, next, "started", time.Time{})
	must(t, old.Pause())
	paused := time.Now()
	await(t, next, "leading", paused)
	time.Sleep(time.Until(paused.Add(2 * quick.LeaseDuration)))
	resumed := time.Now()
	must(t, old.Resume())
	if err := old.Wait(patience(t, soon)); err == nil {
		t.Error("it ended as if nothing had happened")
	}
	told := await(t, old, "error", resumed)
	must(t, durations.Record(t.Name(), "a manager ends after its process runs again", told.Time.Sub(resumed)))
	if slices.ContainsFunc(old.Events(), func(e events.Event) bool { return e.Event == "stopped" }) {
		t.Error("it waited for its work, which takes 20s to stop")
	}
	if !strings.Contains(told.Error, "leadership lost") || !strings.Contains(told.Error, "leader election lost") {
		t.Errorf("it said %q", told.Error)
	}
}
