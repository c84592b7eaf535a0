// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/leasewatch"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// TestS4AFollowerHearsOfNoDeletionOfALockThatItWasNotSent: whoever had it last may still lead.
func TestS4AFollowerHearsOfNoDeletionOfALockThatItWasNotSent(t *testing.T) {
	scenario(t, func(w *world) {
		w.Put(all+"lock", leaseOf("lock", time.Now()))
		f := w.process("b", false).lockNamed("lock").follow(locks.Version{})
		defer f.close()
		f.began = true
		if err := f.begin(); err != nil {
			t.Fatal(err)
		}
		w.Delete(all + "lock")
		synctest.Wait()
		if events, err := f.take(); len(events) > 0 || !errors.Is(err, locks.ErrVersionExpired) {
			t.Errorf("it hears of %d changes, and the feed ends with %v", len(events), err)
		}
	})
}

// TestS4AHeartbeatInAListRenewsNoLockThatTheListShowsChanged: its holder may have lost it before.
func TestS4AHeartbeatInAListRenewsNoLockThatTheListShowsChanged(t *testing.T) {
	scenario(t, func(w *world) {
		heart, lock := leaseOf("heart-a", time.Now()), leaseOf("lock", time.Now())
		w.Put(all+"heart-a", heart)
		w.Put(all+"lock", attach(lock, attachmentTo(heart)))
		f := w.process("b", false).lockNamed("lock").follow(locks.Version{})
		defer f.close()
		if events, err := f.take(); len(events) != 1 || err != nil {
			t.Fatalf("it hears of %d changes: %v", len(events), err)
		}
		w.edit("lock", func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = apitest.Ptr("c") })
		w.edit("heart-a", func(l *coordinationv1.Lease) { l.Spec.RenewTime.Time = time.Now().Add(time.Second) })
		synctest.Wait()
		now := w.lease("heart-a")
		err := f.apply(leasewatch.Change{Name: "heart-a", State: leasewatch.State{Lease: now, Number: record.Number(now.ResourceVersion)}, Gap: true})
		if len(f.events) > 0 || !errors.Is(err, locks.ErrVersionExpired) {
			t.Errorf("it hears of %d changes, and the feed ends with %v", len(f.events), err)
		}
	})
}

// TestL2AnAcquisitionIsJudgedByTheHeartbeatOfItsMoment, not by one that the view
// has shown long before: who takes that epoch for gone does not withdraw it.
func TestL2AnAcquisitionIsJudgedByTheHeartbeatOfItsMoment(t *testing.T) {
	scenario(t, func(w *world) {
		heart, held := leaseOf("heart-a", time.Now()), leaseOf("lock", time.Now())
		w.Put(all+"heart-a", heart)
		w.Put(all+"lock", attach(held, attachmentTo(heart)))
		lock := w.process("b", false).lockNamed("lock")
		w.watched(lock, func() {}) // by the view
		w.edit("lock", func(l *coordinationv1.Lease) { *l = *detach(l); l.Spec.HolderIdentity = apitest.Ptr("") })
		w.edit("heart-a", func(l *coordinationv1.Lease) { l.Spec.AcquireTime.Time = time.Now().Add(time.Second) })
		heart = w.lease("heart-a")
		seen := w.watched(lock, func() {
			w.edit("lock", func(l *coordinationv1.Lease) {
				l.Spec.HolderIdentity = apitest.Ptr("a")
				*l = *attach(l, attachmentTo(heart))
			})
		})
		if len(seen) != 1 || seen[0].Record.Holder != "a" || !stateOf(seen[0].Version).mayBeat {
			t.Errorf("it hears of %+v", seen)
		}
	})
}
