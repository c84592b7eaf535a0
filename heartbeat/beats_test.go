// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/leasewatch"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
)

// beats is a heart in whose Lease each beat's record is written by the test.
type beats struct {
	*heart
	number int
	first  locks.Record
}

func newBeats(t *testing.T) *beats {
	t.Helper()
	client := apitest.Wire(t, apitest.NewServer(), coordinationv1.SchemeGroupVersion)
	view, err := leasewatch.New(leasewatch.Config{Client: client, Namespace: "ns", Patience: time.Second, Limit: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	h, err := newHeart(heartConfig{lease: lease.Config{Client: client, Namespace: "ns", Name: "heart"}, view: view, writes: newWrites(4, time.Second), identity: "a", timing: timing.Timing{}.WithDefaults()})
	if err != nil {
		t.Fatal(err)
	}
	first := locks.Record{Holder: "a", LeaseDuration: 15 * time.Second, AcquireTime: time.Now(), Details: locks.Details{Holder: "a", Nonce: "n"}}
	h.newest = epochIn(first)
	return &beats{heart: h, number: 100, first: first}
}

// send sends a heartbeat, and returns its record.
func (b *beats) send() locks.Record {
	r := b.first
	r.RenewTime = time.Now()
	b.depart(r)
	return r
}

// land has the answer to a heartbeat come.
func (b *beats) land(t *testing.T, r locks.Record) {
	l := record.Write(nil, r)
	b.number++
	l.Name, l.UID, l.ResourceVersion = "heart", "u", strconv.Itoa(b.number)
	b.learn(record.Snapshot(l))
}

// renewal waits for a heartbeat, as Renew does.
func (b *beats) renewal() *renewal {
	one := &renewal{epoch: epochIn(b.first), landed: make(chan landed, 1)}
	b.waiting = append(b.waiting, one)
	return one
}

// renewed reports whether a heartbeat is said to have landed for a renewal, and when that was sent.
func renewed(r *renewal) (sent time.Time, is bool) {
	time.Sleep(time.Minute)
	synctest.Wait()
	select {
	case l := <-r.landed:
		return l.sent, true
	default:
		return time.Time{}, false
	}
}

func TestL1AHeartbeatThatDidNotLandRenewsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeats(t)
		first := b.send()
		b.land(t, first)
		one := b.renewal()
		time.Sleep(time.Second)
		b.send()
		b.land(t, first) // somebody has edited the Lease
		if sent, is := renewed(one); is {
			t.Errorf("a heartbeat without an answer renews, from %v on", sent)
		}
		b.finish()
	})
}

func TestL1TrustCountsFromTheSendingOfTheHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeats(t)
		b.land(t, b.send())
		earlier := b.renewal()
		b.send() // it does not land
		time.Sleep(3 * time.Second)
		between := b.renewal()
		sent := time.Now()
		r := b.send()
		time.Sleep(2 * time.Second)
		b.send() // it may still land
		time.Sleep(2 * time.Second)
		later := b.renewal()
		time.Sleep(2 * time.Second)
		b.land(t, r)
		for what, one := range map[string]*renewal{
			"two heartbeats before": earlier, "just before": between, "after it was sent": later,
		} {
			if since, is := renewed(one); !is || !since.Equal(sent) {
				t.Errorf("what was asked for %s counts from %v after the heartbeat was sent", what, since.Sub(sent))
			}
		}
		b.finish()
	})
}

func TestL1AWriteOfALockIsUnlikeEveryHeartbeatThatMayBeTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeats(t)
		for range 2 {
			sent := time.Now()
			heldBack := sent.Add(-time.Second / 2)
			check := func(what string) {
				if !b.unlike(sent, false).After(sent) {
					t.Errorf("a write has the time of a heartbeat that %s", what)
				}
				if !b.unlike(heldBack, true).After(sent) {
					t.Errorf("a write of a term that goes on is no later than a heartbeat that %s", what)
				}
				if !b.unlike(heldBack, false).Equal(heldBack) {
					t.Error("an acquisition does not have its own time, by which its elector knows it")
				}
			}
			r := b.send()
			check("may still land")
			time.Sleep(time.Second)
			b.land(t, r)
			check("was the last")
			if now := time.Now(); !b.unlike(now, true).Equal(now) {
				t.Error("a write does not have its own time")
			}
		}
	})
}

// TestL1OthersTellARenewalFromTheOneBefore, although a heartbeat was made at the same
// microsecond as a write of a lock that it keeps.
func TestL1OthersTellARenewalFromTheOneBefore(t *testing.T) {
	led(t, 1, func(w *world, a *process) {
		a.quit()
		a.electors.Wait()
		lock, err := a.common.lock("lock-0")
		if err != nil {
			w.Fatal(err)
		}
		elapse(10 * time.Millisecond) // after a heartbeat
		beat := record.Read(w.lease("heart-a")).RenewTime
		write := func(r locks.Record) locks.Snapshot {
			before, err := lock.Read(w.Context())
			if err != nil {
				w.Fatal(err)
			}
			s, err := lock.Write(w.Context(), before.Version, r)
			if err != nil {
				w.Fatal(err)
			}
			return s
		}
		term := locks.Record{Holder: "a", LeaseDuration: w.Timing.LeaseDuration, AcquireTime: beat, RenewTime: beat, Details: locks.Details{Holder: "a", Nonce: "n"}}
		if s := write(term); s.Record.RenewTime.Equal(beat) {
			w.Error("the write has the time of the last heartbeat")
		}
		elapse(w.Timing.RenewInterval / 2)
		began := time.Now()
		next := record.Read(w.lease("heart-a")).RenewTime.Add(w.Timing.RenewInterval)
		term.Details.Token, term.RenewTime = 1, next // as the elector of the heartbeat makes the next one then
		was := write(term)
		if _, s, err := lock.Renew(w.Context(), was.Version); err != nil || s.Record.RenewTime.Equal(was.Record.RenewTime) || time.Since(began) < w.Timing.RenewInterval {
			w.Errorf("the heartbeat that has the time of the write renews it, after %v: %v", time.Since(began), err)
		}
	})
}

// TestL1ARenewalIsDatedByItsHeartbeat, and not by the answer to that or by the call.
func TestL1ARenewalIsDatedByItsHeartbeat(t *testing.T) {
	led(t, 1, func(w *world, a *process) {
		a.quit() // its elector would ask too
		a.electors.Wait()
		lock := a.lockNamed("lock-1")
		a.heartLink.intercept(nil, late(500*time.Millisecond))
		elapse(w.Timing.RenewInterval)
		s, err := lock.Write(w.Context(), locks.Version{}, locks.Record{Holder: "a", LeaseDuration: w.Timing.LeaseDuration, AcquireTime: time.Now(), RenewTime: time.Now(), Details: locks.Details{Holder: "a", Nonce: "n"}})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			sent, is, err := lock.Renew(w.Context(), s.Version)
			if beat := record.Read(w.lease("heart-a")).RenewTime; err != nil || sent.UnixMicro() > beat.UnixMicro() || time.Since(sent) < 500*time.Millisecond || !is.Kept {
				t.Errorf("%v, kept %v: sent %v after the heartbeat, %v ago", err, is.Kept, sent.Sub(beat), time.Since(sent))
			}
		}
		a.heal()
	})
}

// leases shows one Lease at a version.
type leases struct {
	state leasewatch.State
	at    uint64
}

func (l leases) GetSince(_ string, version uint64) (leasewatch.State, bool) {
	return l.state, l.at >= version
}

func TestL1AHeartbeatRenewsNoLockThatItsViewDoesNotShowUnchanged(t *testing.T) {
	named := func(uid, version string) *coordinationv1.Lease {
		l := &coordinationv1.Lease{}
		l.UID, l.ResourceVersion = "u", version
		if uid != "" {
			l.UID = "other"
		}
		return l
	}
	was := &state{lease: named("", "10")}
	for what, c := range map[string]struct {
		lease *coordinationv1.Lease
		at    uint64
		holds bool
	}{
		"unchanged":              {named("", "10"), 20, true},
		"by a later view":        {named("", "10"), 30, true},
		"changed":                {named("", "15"), 20, false},
		"another object":         {named("other", "10"), 20, false},
		"deleted":                {nil, 20, false},
		"by a view that is late": {named("", "10"), 19, false},
	} {
		shown := leasewatch.State{Lease: c.lease}
		if c.lease != nil {
			shown.Number = record.Number(c.lease.ResourceVersion)
		}
		if got := (landed{lease: named("", "20"), leases: leases{shown, c.at}}).holds(was); got != c.holds {
			t.Errorf("%s: %v, want %v", what, got, c.holds)
		}
	}
}

func TestL3AWithdrawalServesOnlyThoseThatWaitedForItsLastHeartbeat(t *testing.T) {
	l := record.Write(nil, locks.Record{Holder: "a", AcquireTime: time.Now(), RenewTime: time.Now(), Details: locks.Details{Holder: "a", Nonce: "n"}})
	l.Name, l.UID, l.ResourceVersion = "heart", "u", "20"
	a := attachment{name: "heart", uid: "u", epoch: epochOf(l)}
	over := withdraw(l, a.epoch)
	if !done(over, a, 20) {
		t.Error("the withdrawal that was waited for does not serve")
	}
	other := a
	other.uid = "v"
	if done(over, a, 19) || done(over, other, 20) || done(l, a, 20) || done(nil, a, 20) {
		t.Error("a withdrawal serves somebody who has not seen the last heartbeat")
	}
}

func TestL3AWithdrawnEpochIsOverWhoeverPutsTheNameBack(t *testing.T) {
	l := record.Write(nil, locks.Record{Holder: "a", AcquireTime: time.Now(), RenewTime: time.Now(), Details: locks.Details{Holder: "a", Nonce: "n"}})
	l.ResourceVersion = "20"
	over := withdraw(l, epochOf(l))
	over.Spec.HolderIdentity = apitest.Ptr("a")
	if e := epochOf(over); e != "" {
		t.Errorf("the epoch %s goes on", e)
	}
}

// Its answer, a conflict, may come after that of the note.
func TestL8AHeartbeatThatMeetsANoteMeetsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeats(t)
		free := func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			return b.beatsLand(ctx)
		}
		if b.landedNote(record.Write(nil, b.first)); !free() {
			t.Error("a note waits though no heartbeat was under way when the one before it landed")
		}
		b.send()
		time.Sleep(time.Second)
		if b.landedNote(record.Write(nil, b.first)); free() {
			t.Error("another note is sent before it is known that the heartbeat met a conflict")
		}
		if b.land(t, b.send()); !free() {
			t.Error("a note waits though a heartbeat has landed")
		}
	})
}
