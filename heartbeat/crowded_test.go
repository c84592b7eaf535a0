// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/leasewatch"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// crowd makes more Leases than a view keeps of those that nobody asked for. They come first in
// each list.
func (w *world) crowd() {
	for i := range 500 {
		lease := leaseOf(fmt.Sprintf("aa-%03d", i), time.Now())
		if i < 100 {
			lease.Spec.HolderIdentity = apitest.Ptr(strings.Repeat("x", 60<<10))
		}
		w.Put(all+lease.Name, lease)
	}
}

// TestL4AHeartbeatThatIsNotKeptIsNotGone: a view keeps only so much of Leases that nobody has
// asked for, and anybody who may create Leases can fill that. Who took a heartbeat's Lease that
// is not kept for a deleted one would take the lock from a holder that renews it.
func TestL4AHeartbeatThatIsNotKeptIsNotGone(t *testing.T) {
	scenario(t, func(w *world) {
		w.crowd()
		heart, held := leaseOf("heart-a", time.Now()), leaseOf("lock", time.Now())
		w.Put(all+"heart-a", heart)
		w.Put(all+"lock", attach(held, attachmentTo(heart)))
		lock := w.process("b", false).lockNamed("lock")
		check := func(s locks.Snapshot) {
			t.Helper()
			if !s.Kept || !stateOf(s.Version).mayBeat || stateOf(s.Version).heart == nil {
				t.Errorf("it reads %+v", s)
			}
		}
		synctest.Wait()
		lock.view.Get("lock") // its elector has read it
		synctest.Wait()
		if slices.ContainsFunc(lock.view.Leases(), func(l *coordinationv1.Lease) bool { return l.Name == "heart-a" }) {
			t.Error("the view has kept the heartbeat's Lease")
		}
		f := lock.follow(locks.Version{})
		defer f.close()
		heard := 0
		for range 5 {
			events, err := f.take()
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				check(e.Snapshot)
				heard++
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if heard == 0 {
			t.Error("it hears nothing of the lock")
		}
	})
	scenario(t, func(w *world) {
		w.crowd()
		heart, held := leaseOf("heart-a", time.Now()), leaseOf("lock", time.Now())
		w.Put(all+"heart-a", heart)
		w.Put(all+"lock", attach(held, attachmentTo(heart)))
		s, err := w.process("b", false).lockNamed("lock").Read(context.Background())
		if err != nil || !s.Kept || !stateOf(s.Version).mayBeat || stateOf(s.Version).heart == nil {
			t.Errorf("it reads %+v, %v", s, err)
		}
	})
}

// TestS4ALockThatIsTooLongToBeReadIsHeld: a Lease that nobody can read is not one that there is not.
func TestS4ALockThatIsTooLongToBeReadIsHeld(t *testing.T) {
	scenario(t, func(w *world) {
		w.Put(all+"lock", leaseOf("lock", time.Now()))
		lock := w.process("b", false).lockNamed("lock")
		s, err := lock.Read(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		f := lock.follow(s.Version)
		defer f.close()
		if events, err := f.take(); len(events) > 0 || err != nil {
			t.Fatalf("it hears of %d changes, %v", len(events), err)
		}
		w.edit("lock", func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = apitest.Ptr(strings.Repeat("x", 5<<20)) })
		synctest.Wait()
		events, err := f.take()
		if len(events) > 0 || err == nil {
			t.Errorf("it hears of %+v, %v", events, err)
		}
		if s, err := lock.Read(context.Background()); err == nil || !strings.Contains(err.Error(), "too long") {
			t.Errorf("it reads %+v, %v", s, err)
		}
	})
}

// TestS4ALongHolderHoldsTheLock, as long as it can be read.
func TestS4ALongHolderHoldsTheLock(t *testing.T) {
	scenario(t, func(w *world) {
		long := leaseOf("lock", time.Now())
		long.Spec.HolderIdentity = apitest.Ptr(strings.Repeat("x", 1_450_000))
		w.Put(all+"lock", long)
		s, err := w.process("b", false).lockNamed("lock").Read(context.Background())
		if err != nil || s.Record.Holder == "" || len(s.Record.Holder) > record.MaxText {
			t.Errorf("it reads %d bytes, %v", len(s.Record.Holder), err)
		}
	})
}

// TestL4ACutStateOfAHeartbeatIsSentToNobody.
func TestL4ACutStateOfAHeartbeatIsSentToNobody(t *testing.T) {
	scenario(t, func(w *world) {
		heart, held := leaseOf("heart-a", time.Now()), leaseOf("lock", time.Now())
		w.Put(all+"heart-a", heart)
		w.Put(all+"lock", attach(held, attachmentTo(heart)))
		f := w.process("b", false).lockNamed("lock").follow(locks.Version{})
		defer f.close()
		if events, err := f.take(); len(events) != 1 || err != nil {
			t.Fatalf("it hears of %d changes: %v", len(events), err)
		}
		if err := f.apply(leasewatch.Change{Name: "heart-a", State: leasewatch.State{Number: f.heart.Number + 1, Cut: true}}); err != nil || len(f.events) > 0 {
			t.Errorf("it hears of %+v, %v", f.events, err)
		}
	})
}
