// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/history"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// A leader is stopped in the middle of a loop of writes that does not check its context. It runs again
// when another candidate leads.
func TestS12AGuardedLeaderThatWasStoppedWritesNothingWhenItRunsAgain(t *testing.T) {
	g := newGround(t, harmless, "guard")
	const loop = 1000 // writes between two looks at the context: ten seconds at least
	args := append([]string{
		"--register=register", "--register-report", "--register-interval=10ms", fmt.Sprint("--register-deaf=", loop),
	}, quickly...)
	read := g.register(t, "register")
	old := g.seat(t, trial.Zonelect, "za", "lock", "old", args...)
	await(t, old, "leading", time.Time{})
	next := g.seat(t, trial.Zonelect, "zb", "lock", "next", args...)
	await(t, next, "following", time.Time{})
	wrote := func() (last events.Event) {
		for _, e := range old.Events() {
			if e.Event == "wrote" {
				last = e
			}
		}
		return last
	}
	until(t, "the old leader is in the first half of its loop", func() bool { n := wrote().Sequence % loop; return n > 10 && n < loop/2 })
	paused := time.Now()
	must(t, old.Pause())
	led := await(t, next, "leading", paused)
	await(t, next, "wrote", led.Time)
	resumed := time.Now()
	must(t, old.Resume())
	await(t, old, "stopped", resumed)

	tries := 0
	sent := history.Printed{old.Identity: old.Events()}.Writes()
	for _, e := range sent {
		if e.Sent.After(resumed) {
			tries++
		}
	}
	if tries == 0 {
		t.Error("the old leader tried to write nothing after it ran again: this test shows nothing")
	}
	newer, late := false, 0
	for _, r := range read() {
		newer = newer || r.Identity == next.Identity
		// It may have been stopped while a write was between the guard and the wire.
		if e, told := sent[r.Write()]; newer && r.Identity == old.Identity && (!told || e.Sent.After(resumed)) {
			late++
		}
	}
	if late > 0 {
		t.Errorf("%d writes of the old leader's term came after the first of the next one's", late)
	}
	for _, e := range next.Events() {
		if e.Event == "stopping" {
			t.Errorf("the next leader stopped: %s", e.Cause)
		}
	}
}
