// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// leaseOf returns a Lease that a holds.
func leaseOf(name string, now time.Time) *coordinationv1.Lease {
	lease := record.Write(nil, locks.Record{
		Holder: "a", LeaseDuration: 15 * time.Second, AcquireTime: now, RenewTime: now,
		Details: locks.Details{Holder: "a", Nonce: "n", Token: 7},
	})
	lease.Name, lease.Namespace, lease.UID = name, "ns", "uid-of-heart"
	return lease
}

// attachmentTo is what a lock notes that a heartbeat keeps for 15 s.
func attachmentTo(heart *coordinationv1.Lease) attachment {
	return attachment{name: heart.Name, uid: heart.UID, epoch: epochOf(heart), lease: 15 * time.Second}
}

// TestL4AnEpochOfUnknownEndIsWithdrawnToo: somebody empties the Lease of a heartbeat and puts
// it back, and its process, which has seen neither, goes on. A candidate that has seen only the
// first takes nothing.
func TestL4AnEpochOfUnknownEndIsWithdrawnToo(t *testing.T) {
	scenario(t, func(w *world) {
		lock, err := w.process("b", true).common.lock("lock")
		if err != nil {
			w.Fatal(err)
		}
		heart := leaseOf("heart-a", time.Now())
		w.Put(all+"heart-a", heart)
		w.Put(all+"lock", attach(leaseOf("lock", time.Now()), attachmentTo(heart)))
		w.edit("heart-a", func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = apitest.Ptr("") })
		seen, err := lock.Read(w.Context())
		if err != nil || !seen.Kept {
			w.Fatalf("read %+v, %v", seen, err)
		}
		clear(w.over)
		w.edit("heart-a", func(l *coordinationv1.Lease) {
			l.Spec.HolderIdentity, l.Spec.RenewTime = apitest.Ptr("a"), &metav1.MicroTime{Time: time.Now()}
		})
		taken := seen.Record
		taken.Holder, taken.Details = "b", locks.Details{Holder: "b"}
		if _, err := lock.Write(w.Context(), seen.Version, taken); !errors.Is(err, locks.ErrConflict) {
			w.Errorf("b takes the lock: %v", err)
		}
		if w.holder("lock") != "a" {
			w.Error("a does not hold the lock")
		}
	})
}
