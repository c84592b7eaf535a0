// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"testing"
	"time"
)

func TestARestoredBackupCostsNoMoreThanATerm(t *testing.T) {
	scenario(t, func(w *world) {
		a := w.process("a", true)
		a.campaign(3)
		elapse(time.Minute)
		restore := w.backup()
		elapse(10 * time.Minute)
		restore()
		elapse(30 * time.Second)
		if n := a.leads(); n != 3 {
			t.Errorf("leads %d of 3 after 30 s", n)
		}
		before := len(w.history("lock-0").Terms())
		a.count("PUT")
		elapse(3 * time.Minute)
		if n, puts := a.leads(), a.count("PUT"); n != 3 || puts > 91 {
			t.Errorf("leads %d of 3 after 3 minutes, with %d writes", n, puts)
		}
		if n := len(w.history("lock-0").Terms()); n != before {
			t.Errorf("%d terms have begun since", n-before)
		}
	})
}

func TestAHolderNoticesThatABackupWasRestoredInWhichAnotherLeads(t *testing.T) {
	for what, silent := range map[string]bool{"all works": false, "the watch is silent": true} {
		t.Run(what, func(t *testing.T) {
			scenario(t, func(w *world) {
				b, a := w.process("b", true), w.process("a", true)
				b.campaign(3)
				elapse(30 * time.Second)
				a.campaign(3)
				elapse(30 * time.Second)
				restore := w.backup()
				b.stop()
				elapse(time.Minute)
				if n := a.leads(); n != 3 {
					t.Fatalf("leads %d of 3", n)
				}
				if silent {
					a.link.silence(true)
				}
				restore()
				elapse(w.Timing.RenewDeadline)
				if n := a.leads(); n != 0 {
					t.Errorf("leads %d although the record names another", n)
				}
				w.process("c", true).campaign(3)
				elapse(time.Minute)
				a.heal()
				elapse(time.Minute)
				for _, p := range w.processes {
					t.Log(p.id, p.leads())
				}
			})
		})
	}
}

func TestAFormerHolderWaitsALeaseForItsOwnRestoredRecord(t *testing.T) {
	for what, heartbeat := range map[string]bool{"heartbeats": true, "renewals": false} {
		t.Run(what, func(t *testing.T) {
			scenario(t, func(w *world) {
				w.lingers = true
				a := w.process("a", heartbeat)
				a.campaign(3)
				elapse(30 * time.Second)
				b := w.process("b", heartbeat)
				b.campaign(3)
				elapse(30 * time.Second)
				restore := w.backup()
				a.cut(true)
				elapse(30 * time.Second)
				if n := b.leads(); n != 3 {
					t.Fatalf("b leads %d of 3", n)
				}
				a.cut(false)
				elapse(30 * time.Second)
				b.cut(true)
				restore() // b does not know, and leads
				elapse(w.Timing.LeaseDuration - time.Second)
				if n := a.leads(); n != 0 {
					t.Errorf("a leads %d before a lease has run out", n)
				}
				elapse(30 * time.Second)
				if n := a.leads(); n != 3 {
					t.Errorf("a leads %d of 3 in the end", n)
				}
			})
		})
	}
}
