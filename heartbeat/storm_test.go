// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"testing"
	"time"
)

func TestManyLocksReadTogetherWhileAHeartbeatIsLate(t *testing.T) {
	scenario(t, func(w *world) {
		a, b := w.process("a", true), w.process("b", false)
		a.campaign(150)
		elapse(30 * time.Second)
		b.campaign(150)
		elapse(30 * time.Second)
		b.count("GET")
		a.heartLink.cut(true)
		elapse(6 * time.Second)
		a.heartLink.cut(false)
		elapse(10 * time.Second)
		if n := b.count("GET"); n > 30 {
			t.Errorf("%d reads while the heartbeat was late", n)
		}
		if n := a.leads(); n != 150 {
			t.Errorf("a leads %d", n)
		}
		a.cut(true)
		elapse(w.Timing.LeaseDuration + 5*time.Second)
		if gets, puts := b.count("GET"), b.count("PUT"); gets > 60 || puts > 150*2+1+150*2 {
			t.Errorf("%d reads and %d writes to take 150 locks", gets, puts)
		}
		if n := b.leads(); n != 150 {
			t.Errorf("b leads %d", n)
		}
	})
}
