// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

func TestL5AnEpochThatHasEndedNeverComesBack(t *testing.T) {
	for what, end := range map[string]func(*coordinationv1.Lease){
		"withdrawn": func(l *coordinationv1.Lease) { *l = *withdraw(l, epochOf(l)) },
		"emptied":   func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = apitest.Ptr("") },
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

// TestL5AnEpochThatAnotherHasReplacedNeverComesBack: the answer to an acquisition was slow, so
// that the elector has acquired the Lease again, and goes on with the first of the two.
func TestL5AnEpochThatAnotherHasReplacedNeverComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeats(t)
		write := func(base locks.Version, acquired time.Time) (locks.Version, error) {
			t.Helper()
			time.Sleep(time.Second)
			r := b.first
			r.AcquireTime, r.RenewTime = acquired, time.Now()
			s, err := b.Write(t.Context(), base, r)
			return s.Version, err
		}
		began := time.Now()
		first, err := write(locks.Version{}, began)
		if err != nil {
			t.Fatal(err)
		}
		again := time.Now()
		second, err := write(first, again)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := write(second, began); !errors.Is(err, locks.ErrConflict) {
			t.Errorf("the first epoch goes on: %v", err)
		}
		if _, err := write(second, again); err != nil || b.epochIn(b.state().Lease) == "" {
			t.Errorf("the second does not: %v", err)
		}
	})
}

// TestL5AnEpochGoesOnThoughAnotherCouldNotBegin: two acquisitions replace the same version, and
// the first one lands.
func TestL5AnEpochGoesOnThoughAnotherCouldNotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeats(t)
		r := b.first
		r.AcquireTime = time.Now()
		s, err := b.Write(t.Context(), locks.Version{}, r)
		if err != nil {
			t.Fatal(err)
		}
		late := r
		late.AcquireTime = time.Now().Add(time.Second)
		if _, err := b.Write(t.Context(), locks.Version{}, late); !errors.Is(err, locks.ErrConflict) {
			t.Fatalf("the second acquisition lands: %v", err)
		}
		r.RenewTime = time.Now().Add(2 * time.Second)
		if _, err := b.Write(t.Context(), s.Version, r); err != nil || b.epochIn(b.state().Lease) != epochIn(r) {
			t.Errorf("the first epoch does not go on: %v", err)
		}
	})
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
		l.Name, l.UID, l.Spec.HolderIdentity = "lock-9", "of another", apitest.Ptr("")
		w.Put(all+"lock-9", l)
		before := w.lease("lock-9").ResourceVersion
		elapse(w.Timing.LeaseDuration)
		if got := w.lease("lock-9"); got.ResourceVersion != before {
			t.Errorf("a process wrote the lock that somebody emptied: %v, %v", got.Annotations, got.Spec)
		}
	})
}
