// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"testing"
	"time"
)

func TestLocksRenewThemselvesWhileTheHeartbeatDoesNotGetThrough(t *testing.T) {
	scenario(t, func(w *world) {
		a := w.process("a", true)
		a.campaign(5)
		elapse(30 * time.Second)
		a.heartLink.cut(true)
		elapse(time.Minute)
		before := len(w.history("lock-0").Terms())
		elapse(3 * time.Minute)
		if n := a.leads(); n != 5 {
			t.Errorf("leads %d of 5", n)
		}
		if n := len(w.history("lock-0").Terms()); n != before {
			t.Errorf("%d terms have begun in three minutes", n-before)
		}
		a.heartLink.cut(false)
		elapse(time.Minute)
		a.count("PUT")
		elapse(time.Minute)
		if n := a.count("PUT"); a.leads() != 5 || n > 31 {
			t.Errorf("then it leads %d with %d writes in a minute", a.leads(), n)
		}
		if n := len(w.history("lock-0").Terms()); n != before {
			t.Errorf("%d terms have begun since the heartbeat is back", n-before)
		}
	})
}
