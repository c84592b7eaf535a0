// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/record"
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

func TestL5AnEpochThatAHandHasMadeKeepsNoLock(t *testing.T) {
	scenario(t, func(w *world) {
		a := w.process("a", true)
		a.campaign(1)
		elapse(time.Minute)
		var made epoch
		w.edit("heart-a", func(l *coordinationv1.Lease) {
			l.Spec.AcquireTime = nil
			made = epochOf(l)
		})
		for _, lock := range []string{"lock-1", "lock-2"} {
			elapse(50 * time.Millisecond)
			a.campaignFor(lock)
		}
		for range 600 {
			elapse(100 * time.Millisecond)
			for _, lock := range []string{"lock-0", "lock-1", "lock-2"} {
				if l := w.lease(lock); l != nil && strings.Contains(l.Annotations[record.AnnotationHeartbeat], string(made)) {
					t.Fatalf("%s is kept by the epoch %s, which no process has begun", lock, made)
				}
			}
		}
		if n := a.leads(); n != 3 {
			t.Errorf("leads %d of 3 a minute later", n)
		}
	})
}

func TestS5AnEmptiedLockIsNotDetached(t *testing.T) {
	led(t, 1, func(w *world, _ *process) {
		l := w.lease("lock-0")
		l.Name, l.UID, l.Spec.HolderIdentity = "lock-9", "of another", new("")
		w.Put(all+"lock-9", l)
		before := w.lease("lock-9").ResourceVersion
		elapse(w.Timing.LeaseDuration)
		if got := w.lease("lock-9"); got.ResourceVersion != before {
			t.Errorf("a process wrote the lock that somebody emptied: %v, %v", got.Annotations, got.Spec)
		}
	})
}
