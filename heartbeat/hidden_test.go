// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"net/http"
	"testing"
	"time"
)

// TestS4AListMayLeaveOutWhoHadALockThatIsGoneAgain: a watch starts over, and shows that there is no
// lock, as before. Another candidate has created it meanwhile, and still leads.
func TestS4AListMayLeaveOutWhoHadALockThatIsGoneAgain(t *testing.T) {
	led(t, 1, func(w *world, a *process) {
		b, c := w.process("b", true), w.process("c", true)
		elapse(10 * time.Second)
		b.campaign(1)
		elapse(5 * time.Second)
		creations, watches := make(chan struct{}), make(chan struct{})
		b.link.intercept(func(r *http.Request) {
			switch {
			case r.Method == http.MethodPost:
				<-creations
			case r.URL.Query().Get("watch") == "true":
				<-watches
			}
		}, nil)
		b.link.silence(true)
		a.stop() // it releases the lock
		w.Delete(all + "lock-0")
		b.link.silence(false)
		elapse(0) // b creates it
		w.Compact()
		c.campaign(1)
		elapse(500 * time.Millisecond)
		if n := c.leads(); n != 1 {
			t.Fatalf("c leads %d", n)
		}
		c.cut(true)
		w.Delete(all + "lock-0")
		w.Compact()
		close(watches)
		elapse(500 * time.Millisecond)
		close(creations)
		elapse(w.Timing.RenewDeadline + time.Second)
		c.heal()
		elapse(20 * time.Second)
		if n := b.leads(); n != 1 {
			t.Errorf("b leads %d in the end", n)
		}
	})
}
