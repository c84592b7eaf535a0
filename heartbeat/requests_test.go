// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// known are candidates that know each other.
func known(ids ...string) func(context.Context, func([]locks.Peer)) {
	var all []locks.Peer
	for _, id := range ids {
		all = append(all, locks.Peer{Candidate: locks.Candidate{Identity: id, Zone: "z-" + id}})
	}
	return func(ctx context.Context, tell func([]locks.Peer)) {
		tell(all)
		<-ctx.Done()
	}
}

// annotate does what kubectl zonelect does: it sets one annotation.
func (w *world) annotate(lock, key, value string) {
	w.Helper()
	w.edit(lock, func(l *coordinationv1.Lease) { l.Annotations[key] = value })
	synctest.Wait()
}

// three starts three processes that know each other, of which a leads 20 locks.
func (w *world) three() (a, b, c *process) {
	w.Helper()
	w.peers = known("a", "b", "c")
	a, b, c = w.process("a", true), w.process("b", true), w.process("c", true)
	for _, p := range []*process{a, b, c} {
		p.campaign(20)
		elapse(10 * time.Second)
	}
	if n := a.leads(); n != 20 {
		w.Fatalf("a leads %d of 20", n)
	}
	return a, b, c
}

func TestALockThatAHeartbeatKeepsIsHandedOverOnRequest(t *testing.T) {
	scenario(t, func(w *world) {
		a, _, c := w.three()
		for i, request := range []string{`{"holder":"a","identity":"c"}`, `{"holder":"a","zone":"z-c"}`} {
			w.annotate(fmt.Sprintf("lock-%d", i), record.AnnotationRequest, request)
			elapse(100 * time.Millisecond)
			if a.leads() != 19-i || c.leads() != i+1 {
				t.Errorf("a leads %d, c leads %d", a.leads(), c.leads())
			}
		}
		elapse(10 * time.Second)
		if l := w.lease("lock-0"); l.Annotations[record.AnnotationRequest] != "" || record.HeartbeatOf(l) != "heart-c" {
			t.Errorf("the Lease says %v", l.Annotations)
		}
	})
}

func TestARefusalIsWrittenOnALockThatAHeartbeatKeeps(t *testing.T) {
	scenario(t, func(w *world) {
		a, _, _ := w.three()
		w.annotate("lock-3", record.AnnotationRequest, `{"holder":"a","identity":"nobody"}`)
		elapse(w.Timing.RenewInterval + 100*time.Millisecond)
		if l := w.lease("lock-3"); l.Annotations[record.AnnotationRequest] != "" || !strings.Contains(l.Annotations[record.AnnotationRefused], "nobody") {
			t.Errorf("the Lease says %v", l.Annotations)
		}
		if elapse(time.Minute); a.leads() != 20 {
			t.Errorf("a leads %d of 20", a.leads())
		}
	})
}

func TestLocksThatAHeartbeatKeepsLeaveAnEvacuatedZone(t *testing.T) {
	scenario(t, func(w *world) {
		a, b, c := w.three()
		for i := range 20 {
			w.annotate(fmt.Sprintf("lock-%d", i), record.AnnotationEvacuated, "z-a")
		}
		elapse(100 * time.Millisecond)
		if a.leads() != 0 || b.leads()+c.leads() != 20 {
			t.Errorf("a leads %d, b %d, c %d", a.leads(), b.leads(), c.leads())
		}
		elapse(time.Minute)
		if a.leads() != 0 || b.leads()+c.leads() != 20 {
			t.Errorf("then a leads %d, b %d, c %d", a.leads(), b.leads(), c.leads())
		}
	})
}

func TestAnAnnotationOnADeadLeadersLockLengthensNoWait(t *testing.T) {
	scenario(t, func(w *world) {
		a, b, c := w.three()
		a.cut(true)
		for range 3 {
			elapse(4 * time.Second)
			w.annotate("lock-0", record.AnnotationEvacuated, "z-x")
		}
		elapse(w.Timing.LeaseDuration - 12*time.Second + 3*time.Second)
		if n := b.leads() + c.leads(); n != 20 {
			t.Errorf("the others lead %d of 20 a lease after the last heartbeat, and %s lock-0", n, w.holder("lock-0"))
		}
	})
}

// TestTheReleaseOfALockDoesNotWaitForAHeartbeat that its last renewal waits for.
func TestTheReleaseOfALockDoesNotWaitForAHeartbeat(t *testing.T) {
	for _, late := range []time.Duration{0, 500 * time.Millisecond, time.Second, 1500 * time.Millisecond} {
		scenario(t, func(w *world) {
			a, b, c := w.three()
			elapse(late)
			began := time.Now()
			a.quit()
			a.electors.Wait()
			if took := time.Since(began); took > 0 {
				t.Errorf("%v later: the release took %v", late, took)
			}
			elapse(100 * time.Millisecond)
			if n := b.leads() + c.leads(); n != 20 {
				t.Errorf("%v later: the others lead %d of 20", late, n)
			}
		})
	}
}
