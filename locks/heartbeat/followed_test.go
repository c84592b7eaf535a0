// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/leasewatch"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
)

func TestL2ACandidateThatSharesNothingFollowsHeartbeats(t *testing.T) {
	scenario(t, func(w *world) {
		a, b := w.process("a", true), w.process("b", false)
		a.campaign(1)
		elapse(20 * time.Second)
		b.campaignPlainly("lock-0")
		elapse(2 * time.Minute)
		if a.leads() != 1 || b.leads() != 0 {
			t.Fatalf("a leads %d, b leads %d", a.leads(), b.leads())
		}
		b.count("GET")
		elapse(time.Minute)
		if n := b.count("GET"); n > 2 {
			t.Errorf("b reads %d times a minute", n)
		}
		a.cut(true)
		elapse(w.Timing.LeaseDuration + 3*time.Second)
		if b.leads() != 1 {
			t.Fatal("b does not take over")
		}
		a.cut(false)
		elapse(time.Minute)
		b.quit() // and back, in good order
		b.electors.Wait()
		elapse(5 * time.Second)
		if a.leads() != 1 {
			t.Error("a does not take over")
		}
	})
}

// TestS4ACandidateThatSharesNothingHearsOfEachAcquisition, also of one that names a heartbeat
// which came before it. Else it would not know who had the lock, if that is deleted before the
// next heartbeat.
func TestS4ACandidateThatSharesNothingHearsOfEachAcquisition(t *testing.T) {
	scenario(t, func(w *world) {
		heart, free := leaseOf("heart-a", time.Now()), leaseOf("lock", time.Now())
		free.Spec.HolderIdentity = ptr.To("")
		w.Put(all+"heart-a", heart)
		w.Put(all+"lock", free)
		seen := w.watched(w.followed(w.process("b", false).common.Client, "lock"), func() {
			w.edit("lock", func(l *coordinationv1.Lease) {
				l.Spec.HolderIdentity = ptr.To("a")
				*l = *attach(l, attachmentTo(heart))
			})
			elapse(time.Second)
			w.Delete(all + "lock")
		})
		if len(seen) != 2 || seen[0].Record.Holder != "a" || seen[1].Record.Holder != "" {
			w.Errorf("it hears of %+v", seen)
		}
	})
}

// TestL2ACandidateThatSharesNothingTakesNoLockWhoseHeartbeatItCouldNotWithdraw: there was another
// heartbeat since, of which it has not heard. The lock's own Lease has not changed.
func TestL2ACandidateThatSharesNothingTakesNoLockWhoseHeartbeatItCouldNotWithdraw(t *testing.T) {
	scenario(t, func(w *world) {
		a, b := w.process("a", true), w.process("b", false)
		a.campaign(1)
		elapse(20 * time.Second)
		lock := w.followed(b.common.Client, "lock-0")
		seen, err := lock.Read(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		elapse(2 * w.Timing.RenewInterval)
		take := seen.Record
		take.Holder, take.Details = "b", locks.Details{Holder: "b"}
		if _, err := lock.Write(w.Context(), seen.Version, take); !errors.Is(err, locks.ErrConflict) {
			w.Errorf("b writes, with %v", err)
		}
		if holder := w.holder("lock-0"); holder != "a" || a.leads() != 1 {
			w.Errorf("the holder is %s", holder)
		}
	})
}

// TestL4ACandidateThatSharesNothingWaitsNoYear for a dead holder from whose lock a hand removed the
// annotation, but not the duration. One that comes later cannot know how long the holder leads.
func TestL4ACandidateThatSharesNothingWaitsNoYear(t *testing.T) {
	for what, when := range map[string]time.Duration{"that has seen the heartbeats": 0, "that comes later": 20 * time.Second} {
		t.Run(what, func(t *testing.T) {
			led(t, 1, func(w *world, a *process) {
				b := w.process("b", false)
				campaign := time.AfterFunc(when, func() { b.campaignPlainly("lock-0") })
				defer campaign.Stop()
				elapse(5 * time.Second)
				a.cut(true)
				w.edit("lock-0", func(l *coordinationv1.Lease) { delete(l.Annotations, record.AnnotationHeartbeat) })
				elapse(w.Timing.LeaseDuration - 3*time.Second)
				if w.holder("lock-0") != "a" {
					t.Error("b took the lock before a lease")
				}
				w.Compact() // b reads
				elapse(25 * time.Second)
				want := 1
				if when > 0 {
					want = 0
				}
				if n := b.leads(); n != want {
					t.Errorf("b leads %d locks, want %d", n, want)
				}
				a.heal()
			})
		})
	}
}

// TestAFollowerDoesNotWarnOfTheLongLeaseThatAHeartbeatKeeps: what the Lease alone says is not how long
// its holder is waited for.
func TestAFollowerDoesNotWarnOfTheLongLeaseThatAHeartbeatKeeps(t *testing.T) {
	scenario(t, func(w *world) {
		w.process("a", true).campaign(1)
		elapse(20 * time.Second)
		var said []string
		client := apitest.Wire(w.T, w.Server, coordinationv1.SchemeGroupVersion)
		f, err := NewFollowed(lease.Config{Client: client, Namespace: "ns", Name: "lock-0", Logger: funcr.New(func(_, line string) { said = append(said, line) }, funcr.Options{})},
			leasewatch.Config{Patience: w.Timing.AttemptTimeout, Limit: w.Timing.RenewDeadline})
		if err != nil {
			t.Fatal(err)
		}
		s, err := f.Read(w.Context())
		if err != nil || s.Record.LeaseDuration != w.Timing.LeaseDuration {
			t.Fatalf("it reads %+v, %v", s.Record, err)
		}
		for _, line := range said {
			if strings.Contains(line, "unusually long") {
				t.Errorf("the lease lasts %v, and it says %s", s.Record.LeaseDuration, line)
			}
		}
	})
}
