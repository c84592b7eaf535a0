// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"testing"
	"time"
)

func TestL1OneHeartbeatRenewsAllLocks(t *testing.T) {
	scenario(t, func(w *world) {
		a := w.process("a", true)
		a.campaign(50)
		elapse(time.Minute)
		if n := a.leads(); n != 50 {
			t.Fatalf("leads %d of 50", n)
		}
		a.count("PUT")
		a.count("GET")
		elapse(time.Minute)
		if n := a.count("PUT"); n < 29 || n > 31 {
			t.Errorf("%d writes in a minute, want 30", n)
		}
		if n := a.count("GET"); n > 2 {
			t.Errorf("%d reads in a minute: %v", n, a.link.counts)
		}
		if n := a.leads(); n != 50 {
			t.Errorf("leads %d of 50 after a minute", n)
		}
	})
}

func TestL2TheLocksOfADeadProcessAreTakenAfterALease(t *testing.T) {
	scenario(t, func(w *world) {
		a, b := w.process("a", true), w.process("b", true)
		a.campaign(50)
		elapse(30 * time.Second)
		b.campaign(50)
		elapse(30 * time.Second)
		if a.leads() != 50 || b.leads() != 0 {
			t.Fatalf("a leads %d, b leads %d", a.leads(), b.leads())
		}
		b.count("PUT")
		a.cut(true)
		elapse(w.Timing.RenewDeadline + time.Millisecond)
		if a.leads() != 0 {
			t.Errorf("a leads %d after its RenewDeadline", a.leads())
		}
		elapse(w.Timing.LeaseDuration - w.Timing.RenewDeadline + 3*time.Second)
		if b.leads() != 50 {
			t.Errorf("b leads %d", b.leads())
		}
		if n := b.count("PUT"); n > 50*2+1+10 {
			t.Errorf("b sent %d writes", n)
		}
		a.cut(false)
		elapse(time.Minute)
		if a.leads() != 0 || b.leads() != 50 {
			t.Errorf("then a leads %d, b %d", a.leads(), b.leads())
		}
	})
}
