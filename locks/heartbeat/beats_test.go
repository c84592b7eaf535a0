// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/leasewatch"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
)

// caller is a Dispatch that notes since when it trusts.
type caller struct{ since time.Time }

func (*caller) Held()          {}
func (c *caller) Sent()        { c.since = time.Now() }
func (*caller) Now() any       { return time.Now() }
func (c *caller) SentAt(t any) { c.since = t.(time.Time) }

// beats is a Heart in whose Lease each beat's record is written by the test.
type beats struct {
	*Heart
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
	h, err := NewHeart(HeartConfig{Lease: lease.Config{Client: client, Namespace: "ns", Name: "heart"}, View: view, Writes: NewWrites(4), Identity: "a", Timing: timing.Timing{}.WithDefaults()})
	if err != nil {
		t.Fatal(err)
	}
	first := locks.Record{Holder: "a", LeaseDuration: 15 * time.Second, AcquireTime: time.Now(), Details: locks.Details{Holder: "a", Nonce: "n"}}
	h.newest = epochIn(first)
	return &beats{Heart: h, number: 100, first: first}
}

// send sends a heartbeat that renews one lock, and returns its record.
func (b *beats) send(one *renewal) locks.Record {
	r := b.first
	r.RenewTime = time.Now()
	if one != nil {
		b.waiting = append(b.waiting, one)
	}
	b.depart(r)
	return r
}

// land has the answer to a heartbeat come.
func (b *beats) land(t *testing.T, r locks.Record) {
	l := record.Write(nil, r)
	b.number++
	l.Name, l.UID, l.ResourceVersion = "heart", "u", strconv.Itoa(b.number)
	b.learn(t.Context(), record.Snapshot(l))
}

func (b *beats) renewal(name string) *renewal {
	return &renewal{name: name, dispatch: &caller{}, epoch: epochIn(b.first), landed: make(chan landed, 1)}
}

// renewed reports whether a heartbeat is said to have landed for a renewal.
func renewed(r *renewal) bool {
	time.Sleep(time.Minute)
	synctest.Wait()
	return len(r.landed) == 1
}

func TestL1AHeartbeatThatDidNotLandRenewsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeats(t)
		one, two := b.renewal("one"), b.renewal("two")
		first := b.send(one)
		time.Sleep(time.Second)
		b.send(two)
		b.land(t, first)
		if !renewed(one) || renewed(two) {
			t.Errorf("the first heartbeat landed: %v, %v", len(one.landed), len(two.landed))
		}
	})
}

func TestL1TrustCountsFromTheSendingOfTheHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeats(t)
		earlier, joined, next, later := b.renewal("x"), b.renewal("x"), b.renewal("x"), b.renewal("x")
		b.keep("x").clock = &caller{}
		b.send(earlier)
		time.Sleep(3 * time.Second)
		sent := time.Now()
		r := b.send(joined)
		time.Sleep(2 * time.Second)
		b.send(next)
		time.Sleep(2 * time.Second)
		b.waiting = append(b.waiting, later) // after the heartbeats were sent
		time.Sleep(2 * time.Second)
		b.land(t, r)
		for what, one := range map[string]*renewal{
			"joined one that did not land": earlier, "joined it": joined, "joined one that may still land": next, "was asked for later": later,
		} {
			landed := renewed(one)
			if since := one.dispatch.(*caller).since; !landed || !since.Equal(sent) {
				t.Errorf("the renewal that %s counts from %v after the heartbeat was sent", what, since.Sub(sent))
			}
		}
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
			r := b.send(nil)
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
		lock, err := a.common.New("lock-0")
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
		if s := write(term); s.Record.RenewTime.Equal(was.Record.RenewTime) || time.Since(began) < w.Timing.RenewInterval {
			w.Errorf("the heartbeat that has the time of the write renews it, after %v", time.Since(began))
		}
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
	over.Spec.HolderIdentity = ptr.To("a")
	if e := epochOf(over); e != "" {
		t.Errorf("the epoch %s goes on", e)
	}
}

func TestAConfigurationIsRefusedWithAllThatIsWrong(t *testing.T) {
	_, err := NewHeart(HeartConfig{Lease: lease.Config{Namespace: "ns", Name: "Heart"}, Timing: timing.Timing{LeaseDuration: time.Second}})
	for _, want := range []string{"the client is nil", "the name \"Heart\" is not valid", "it needs a View, Writes and an Identity", "RenewDeadline"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	if _, err := (Config{Namespace: "ns"}).New("lock"); err == nil || !strings.Contains(err.Error(), "it needs a View and Writes") {
		t.Errorf("a lock without a View: %v", err)
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
		b.send(nil)
		time.Sleep(time.Second)
		if b.landedNote(record.Write(nil, b.first)); free() {
			t.Error("another note is sent before it is known that the heartbeat met a conflict")
		}
		if b.land(t, b.send(nil)); !free() {
			t.Error("a note waits though a heartbeat has landed")
		}
	})
}
