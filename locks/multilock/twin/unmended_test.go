// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package twin

import (
	"testing"
	"time"

	"github.com/zonelect/zonelect/locks/lockstest"
)

// The tests of this file show known faults. Each is skipped until its fault is mended.

// halfBlind has a candidate lead, and another follow whose watch of the Lease stands still from now
// on, as a server's cache of Leases may. Its watch of the legacy object shows each renewal.
func halfBlind(t *testing.T, f func(s *twinStage, a, b *twinSeat)) {
	t.Helper()
	twinScenario(t, func(s *twinStage) {
		a := s.start("a")
		s.leads(a)
		b := s.start("b")
		time.Sleep(twinLease)
		b.governing.Set(lockstest.Fault{Mute: true})
		late := lockstest.Fault{Delay: twinInterval / 8, Mute: true} // renewals land after b's lease is over, not at that instant
		a.fail(late, late)
		f(s, a, b)
	})
}

func TestS3WhoSeesRenewalsOnOneOfBothRecordsTakesNeither(t *testing.T) {
	t.Skip("renewals on the legacy record alone are none, and hide that the watch of the Lease is silent")
	halfBlind(t, func(s *twinStage, a, _ *twinSeat) {
		time.Sleep(10 * twinLease)
		s.leadsOn(a)
		if got := s.holders(); got != "a, a" {
			t.Errorf("the holders are %s", got)
		}
	})
}

// TestS4WhatIsLeftOfAHalfTakeoverIsNoTermWhenTheOtherRecordIsDeleted: the simulation found it in
// population phases, with seed 71000022, in steps 7, 9, 10, 11, 24, 25, 26, 27, 28, 34, 35, 49, 50 and 53 to 59.
func TestS4WhatIsLeftOfAHalfTakeoverIsNoTermWhenTheOtherRecordIsDeleted(t *testing.T) {
	t.Skip("a candidate that took the legacy record by an old Lease takes the deleted Lease as its own")
	halfBlind(t, func(s *twinStage, a, b *twinSeat) {
		for range 1000 * 2 * int(twinLease.Seconds()) {
			if s.read(s.legacy).Record.Holder == "b" {
				break
			}
			time.Sleep(time.Millisecond)
		}
		a.fail(twinCut, twinCut) // and does not hear of it
		s.governing.Delete()
		b.fail(lockstest.Fault{}, lockstest.Fault{})
		if _, took := s.leads(b); took < twinLease-twinInterval {
			t.Errorf("b leads after %v", took)
		}
		s.loses(a)
	})
}
