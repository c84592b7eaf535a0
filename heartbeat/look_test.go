// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"encoding/json"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// looks returns what somebody sees who looks at a lock.
func (w *world) looks(lock string) (s locks.Snapshot, void string) {
	l := w.lease(lock)
	var heart *coordinationv1.Lease
	if name := record.HeartbeatOf(l); name != "" {
		heart = w.lease(name)
	}
	return Compose(l, heart)
}

// TestWhoeverLooksSeesWhetherAHeartbeatRenewsALock, whatever somebody writes on the lock.
func TestWhoeverLooksSeesWhetherAHeartbeatRenewsALock(t *testing.T) {
	for name, tc := range map[string]struct {
		happens func(w *world, a *process)
		kept    bool          // the heartbeat is named on the lock
		void    bool          // it has ended
		age     time.Duration // the last renewal is that old at most
		least   time.Duration // and at least
	}{
		"it beats":                 {func(*world, *process) {}, true, false, 2 * time.Second, 0},
		"the lock was just edited": {func(w *world, _ *process) { w.annotate("lock-0", record.AnnotationEvacuated, "zx") }, true, false, 2 * time.Second, 0},
		"the process is dead":      {func(w *world, a *process) { a.cut(true); elapse(10 * time.Second) }, true, false, 12 * time.Second, 10 * time.Second},
		"and the lock is edited": {func(w *world, a *process) {
			a.cut(true)
			elapse(10 * time.Second)
			w.annotate("lock-0", record.AnnotationEvacuated, "zx")
		}, true, false, 12 * time.Second, 10 * time.Second},
		"it was withdrawn": {func(w *world, a *process) {
			a.cut(true)
			elapse(10 * time.Second)
			w.edit("heart-a", func(l *coordinationv1.Lease) { *l = *withdraw(l, epochOf(l)) })
		}, true, true, 12 * time.Second, 10 * time.Second},
		"it was deleted": {func(w *world, a *process) {
			a.cut(true)
			w.Delete(all + "heart-a")
		}, true, true, time.Hour, time.Minute},
		"the lock was released": {func(w *world, a *process) { a.quit(); a.electors.Wait() }, false, false, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(w *world) {
				a := w.process("a", true)
				a.campaign(1)
				elapse(2 * time.Minute)
				tc.happens(w, a)
				s, void := w.looks("lock-0")
				if s.Kept != tc.kept || (void != "") != tc.void {
					t.Errorf("kept %v, void %q", s.Kept, void)
				}
				if age := time.Since(s.Record.RenewTime); age > tc.age || age < tc.least {
					t.Errorf("the last renewal is %v old", age)
				}
				if tc.kept && s.Record.LeaseDuration != w.Timing.LeaseDuration {
					t.Errorf("it lasts %v", s.Record.LeaseDuration)
				}
				if _, err := a.lockNamed("lock-0").Write(t.Context(), s.Version, s.Record); err == nil {
					t.Error("a Lock accepts that version")
				}
			})
		})
	}
}

func TestAHeartbeatIsNoLockAndSaysSo(t *testing.T) {
	scenario(t, func(w *world) {
		a := w.process("a", true)
		a.campaign(1)
		elapse(10 * time.Second)
		w.edit("heart-a", func(l *coordinationv1.Lease) { l.Labels = nil })
		elapse(10 * time.Second)
		if heart, lock := w.lease("heart-a"), w.lease("lock-0"); !record.IsHeartbeat(heart) || record.IsHeartbeat(lock) || record.HeartbeatOf(lock) != "heart-a" || record.HeartbeatOf(heart) != "" {
			t.Errorf("labels %v and %v, the lock is kept by %q", heart.Labels, lock.Labels, record.HeartbeatOf(lock))
		}
	})
}

// TestALockSaysUnderWhichNameItsCandidatesAnnounceThemselves, also after somebody removed
// that, and no longer once a candidate leads that uses the lock's own name.
func TestALockSaysUnderWhichNameItsCandidatesAnnounceThemselves(t *testing.T) {
	for _, heartbeat := range []bool{true, false} {
		scenario(t, func(w *world) {
			a, b := w.process("a", heartbeat), w.process("b", heartbeat)
			a.common.group = "op"
			a.campaign(1)
			a.campaignFor("op")
			elapse(10 * time.Second)
			b.campaign(1)
			elapse(10 * time.Second)
			said := func(lock string) string { return w.lease(lock).Annotations[record.AnnotationShared] }
			if said("lock-0") != "op" || said("op") != "" {
				t.Errorf("they say %q and %q", said("lock-0"), said("op"))
			}
			w.edit("lock-0", func(l *coordinationv1.Lease) { delete(l.Annotations, record.AnnotationShared) })
			if elapse(10 * time.Second); said("lock-0") != "op" || a.leads() != 2 {
				t.Errorf("somebody removed it: %q", said("lock-0"))
			}
			a.quit()
			if elapse(10 * time.Second); said("lock-0") != "" || b.leads() != 1 {
				t.Errorf("b says %q", said("lock-0"))
			}
		})
	}
}

// FuzzCompose reads any JSON that decodes as two Leases. What it shows of a lock is what the
// lock's Lease says, except when it was renewed last and how long that lasts.
func FuzzCompose(f *testing.F) {
	const (
		lock  = `{"metadata":{"name":"l","resourceVersion":"7","annotations":{"zonelect.dev/heartbeat":"h u n.0 15"}},"spec":{"holderIdentity":"a","leaseDurationSeconds":31536000,"renewTime":"2000-01-01T00:00:00.000000Z"}}`
		heart = `{"metadata":{"name":"h","uid":"u","resourceVersion":"9","annotations":{"zonelect.dev/holder":"a","zonelect.dev/nonce":"n"}},"spec":{"holderIdentity":"a","acquireTime":"1970-01-01T00:00:00.000000Z","renewTime":"2000-01-01T00:00:01.000000Z"}}`
		ended = `{"metadata":{"name":"h","uid":"u","resourceVersion":"9","annotations":{"zonelect.dev/withdrawn-epoch":"n.0 8 946684801000000"}}}`
	)
	f.Add([]byte(lock), []byte(heart))
	f.Add([]byte(lock), []byte(ended))
	f.Add([]byte(lock), []byte(lock))
	f.Add([]byte(heart), []byte(`{}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		lock, heart := &coordinationv1.Lease{}, &coordinationv1.Lease{}
		if json.Unmarshal(a, lock) != nil || json.Unmarshal(b, heart) != nil {
			t.Skip("no leases")
		}
		s, void := Compose(lock, heart)
		own := record.Read(lock)
		if s.Record.RenewTime.Before(own.RenewTime) || s.Kept && s.Record.LeaseDuration <= 0 {
			t.Fatalf("%+v was renewed at %v, and lasts %v", own, s.Record.RenewTime, s.Record.LeaseDuration)
		}
		if !s.Kept && (void != "" || !s.Record.RenewTime.Equal(own.RenewTime)) {
			t.Fatalf("no heartbeat keeps it, but %q", void)
		}
		s.Record.RenewTime, s.Record.LeaseDuration = own.RenewTime, own.LeaseDuration
		if s.Record != own || s.Version.Opaque != lock {
			t.Fatalf("it shows %+v\nof %+v", s.Record, own)
		}
		Compose(lock, nil)
	})
}

// lockNamed returns a lock of the process.
func (p *process) lockNamed(name string) *lock {
	lock, err := p.common.lock(name)
	if err != nil {
		p.world.Fatal(err)
	}
	return lock
}
