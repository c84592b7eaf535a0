// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

func TestL5AnEpochThatHasEndedNeverComesBack(t *testing.T) {
	for what, end := range map[string]func(*coordinationv1.Lease){
		"withdrawn": func(l *coordinationv1.Lease) { *l = *withdraw(l, epochOf(l)) },
		"emptied":   func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("") },
	} {
		t.Run(what, func(t *testing.T) {
			scenario(t, func(w *world) {
				a := w.process("a", true)
				a.campaign(3)
				elapse(time.Minute)
				if n := a.leads(); n != 3 {
					t.Fatalf("leads %d of 3", n)
				}
				w.edit("heart-a", end) // the test's world looks whether the epoch comes back
				elapse(time.Minute)
				if n := a.leads(); n != 3 {
					t.Errorf("leads %d of 3 a minute later", n)
				}
			})
		})
	}
}
