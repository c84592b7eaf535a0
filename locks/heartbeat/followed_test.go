// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"testing"
	"time"
)

func TestL2ACandidateThatSharesNothingFollowsHeartbeats(t *testing.T) {
	scenario(t, func(w *world) {
		a, b := w.process("a", true), w.process("b", false)
		a.campaign(1)
		elapse(20 * time.Second)
		b.campaignPlainly("lock-0")
		elapse(2 * time.Minute)
		if a.leads() != 1 || b.leads() != 0 {
			t.Fatalf("a leads %d, b leads %d", a.leads(), b.leads())
		}
		b.count("GET")
		elapse(time.Minute)
		if n := b.count("GET"); n > 2 {
			t.Errorf("b reads %d times a minute", n)
		}
		a.cut(true)
		elapse(w.Timing.LeaseDuration + 3*time.Second)
		if b.leads() != 1 {
			t.Fatal("b does not take over")
		}
		a.cut(false)
		elapse(time.Minute)
		b.quit() // and back, in good order
		b.electors.Wait()
		elapse(5 * time.Second)
		if a.leads() != 1 {
			t.Error("a does not take over")
		}
	})
}
