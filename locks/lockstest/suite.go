// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package lockstest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/zonelect/zonelect/locks"
)

// Suite says how RunSuite makes and deletes the locks under test.
type Suite struct {
	// New returns a lock that no other test uses, and that has no record.
	New func(t *testing.T) locks.Lock
	// Delete removes the lock's record without the lock's knowledge. Nil skips the tests
	// of deletion.
	Delete func(t *testing.T, lock locks.Lock)
	// StoreNothing makes the server acknowledge each write of a record from now on and store
	// none, like a cache before it, or admission that undoes each change. Nil skips the test of
	// that.
	StoreNothing func(t *testing.T, lock locks.Lock)
}

// suitePatience bounds each test, so that a lock that hangs fails.
const suitePatience = 30 * time.Second

// RunSuite runs every test of the suite as a subtest.
func RunSuite(t *testing.T, s Suite) {
	laws := map[string]func(*testing.T, context.Context, locks.Lock){
		"ANewLockHasANameAndNoRecord":       newLock,
		"WhatIsWrittenIsRead":               roundTrip,
		"AWriteAtAnotherVersionIsAConflict": conflict,
		"NumbersGrowAndTheUIDStays":         numbersGrow,
		"OfConcurrentWritesExactlyOneLands": oneWins,
		"AnEndedContextIsAnErrorAndNoWrite": endedContext,
		"WatchFromZeroBeginsWithWhatIs":     watchFromZero,
		"WatchGoesOnAfterItsVersion":        watchGoesOn,
		"WatchEndsWithItsContext":           watchEnds,
	}
	if s.Delete != nil {
		laws["ADeletedRecordIsGoneAndItsNumberIsNot"] = s.deletion
	}
	if s.StoreNothing != nil {
		laws["AWriteThatChangedNothingIsNotAcknowledged"] = s.writeOfNothing
	}
	for name, law := range laws {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), suitePatience)
			defer cancel()
			law(t, ctx, s.New(t))
		})
	}
}

// suiteRecord is a record of term n with every field set.
func suiteRecord(holder string, n int) locks.Record {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC).Add(time.Duration(n) * time.Second)
	return locks.Record{
		Holder: holder, LeaseDuration: 15 * time.Second, AcquireTime: at, RenewTime: at, Transitions: int32(n),
		Details: locks.Details{
			Holder: holder, Token: 1234567, Zone: "za", Node: "node-1", Pod: locks.Pod{Name: "pod-1", UID: "uid-1"},
			Nonce: "n-1", Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			Request: `{"holder":"a","zone":"zb"}`, Refused: "no", Waits: "why",
		},
	}
}

func mustWrite(t *testing.T, ctx context.Context, l locks.Lock, base locks.Version, r locks.Record) locks.Snapshot {
	t.Helper()
	s, err := l.Write(ctx, base, r)
	if err != nil {
		t.Fatalf("Write: %v", err)
	}
	return s
}

func mustRead(t *testing.T, ctx context.Context, l locks.Lock) locks.Snapshot {
	t.Helper()
	s, err := l.Read(ctx)
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	return s
}

func newLock(t *testing.T, ctx context.Context, l locks.Lock) {
	if d, s := l.Describe(), mustRead(t, ctx, l); d.Name == "" || d.Kind == "" || s.Version.Exists() {
		t.Fatalf("Describe returns %+v, Read %+v", d, s.Record)
	}
}

// sameRecord compares by value; times may differ in their location.
func sameRecord(a, b locks.Record) bool {
	same := a.AcquireTime.Equal(b.AcquireTime) && a.RenewTime.Equal(b.RenewTime)
	a.AcquireTime, a.RenewTime, b.AcquireTime, b.RenewTime = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return same && a == b
}

// roundTrip writes a renewal, a release, and the record of a holder that says nothing else.
func roundTrip(t *testing.T, ctx context.Context, l locks.Lock) {
	released, bare := suiteRecord("a", 2), suiteRecord("b", 3)
	released.Holder, released.LeaseDuration, released.Details.Released = "", time.Second, released.Details.Token
	released.Details.Handover = locks.Handover{To: "b 2", Precedence: 4 * time.Second}
	bare.Details = locks.Details{Holder: "b"}
	var at locks.Version
	for _, want := range []locks.Record{suiteRecord("a", 1), released, bare} {
		wrote := mustWrite(t, ctx, l, at, want)
		read := mustRead(t, ctx, l)
		if !sameRecord(wrote.Record, want) || !sameRecord(read.Record, want) {
			t.Fatalf("wrote %+v\ngot back %+v\nread %+v", want, wrote.Record, read.Record)
		}
		if at = wrote.Version; at.Number != read.Version.Number || at.UID != read.Version.UID {
			t.Fatalf("version of the write is %+v, of the read %+v", at, read.Version)
		}
	}
}

func conflict(t *testing.T, ctx context.Context, l locks.Lock) {
	old := mustWrite(t, ctx, l, locks.Version{}, suiteRecord("a", 1))
	now := mustWrite(t, ctx, l, old.Version, suiteRecord("a", 2))
	for _, at := range []locks.Version{{}, old.Version} {
		if _, err := l.Write(ctx, at, suiteRecord("b", 3)); !errors.Is(err, locks.ErrConflict) {
			t.Fatalf("write at %+v: %v, want ErrConflict", at, err)
		}
	}
	if mustRead(t, ctx, l).Version.Number != now.Version.Number {
		t.Fatal("a write that conflicted was written")
	}
}

func numbersGrow(t *testing.T, ctx context.Context, l locks.Lock) {
	s := mustWrite(t, ctx, l, locks.Version{}, suiteRecord("a", 1))
	if s.Version.Number == 0 || s.Version.UID == "" {
		t.Fatalf("a record has the version %+v", s.Version)
	}
	for n := 2; n < 5; n++ {
		next := mustWrite(t, ctx, l, s.Version, suiteRecord("a", n))
		if next.Version.Number <= s.Version.Number || next.Version.UID != s.Version.UID {
			t.Fatalf("version %+v came after %+v", next.Version, s.Version)
		}
		s = next
	}
}

func oneWins(t *testing.T, ctx context.Context, l locks.Lock) {
	base := mustWrite(t, ctx, l, locks.Version{}, suiteRecord("", 1))
	const writers = 8
	errs := make([]error, writers)
	var wait sync.WaitGroup
	for i := range writers {
		wait.Go(func() { _, errs[i] = l.Write(ctx, base.Version, suiteRecord("w", i+2)) })
	}
	wait.Wait()
	landed := 0
	for _, err := range errs {
		switch {
		case err == nil:
			landed++
		case !errors.Is(err, locks.ErrConflict):
			t.Errorf("concurrent write: %v, want nil or ErrConflict", err)
		}
	}
	if landed != 1 {
		t.Fatalf("%d of %d concurrent writes at one version landed", landed, writers)
	}
}

func endedContext(t *testing.T, ctx context.Context, l locks.Lock) {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := l.Write(ended, locks.Version{}, suiteRecord("a", 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("Write with an ended context: %v, want context.Canceled", err)
	}
	if _, err := l.Read(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Read with an ended context: %v, want context.Canceled", err)
	}
	if s := mustRead(t, ctx, l); s.Version.Exists() {
		t.Error("a write with an ended context landed")
	}
}

// watch starts a watch. The test stops it at its end and waits for it.
func watch(t *testing.T, ctx context.Context, l locks.Lock, from locks.Version) <-chan locks.Event {
	ctx, cancel := context.WithCancel(ctx)
	events, ended := make(chan locks.Event), make(chan struct{})
	go func() {
		defer close(ended)
		_ = l.Watch(ctx, from, events)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return events
}

// nextEvent returns the next event that is not a bookmark.
func nextEvent(t *testing.T, ctx context.Context, events <-chan locks.Event) locks.Event {
	t.Helper()
	for {
		select {
		case e := <-events:
			if !e.Bookmark {
				return e
			}
		case <-ctx.Done():
			t.Fatal("the watch did not tell what happened")
		}
	}
}

func watchFromZero(t *testing.T, ctx context.Context, l locks.Lock) {
	s := mustWrite(t, ctx, l, locks.Version{}, suiteRecord("a", 1))
	if e := nextEvent(t, ctx, watch(t, ctx, l, locks.Version{})); e.Snapshot.Version.Number != s.Version.Number {
		t.Fatalf("watch from zero began with version %d, want %d", e.Snapshot.Version.Number, s.Version.Number)
	}
}

func watchGoesOn(t *testing.T, ctx context.Context, l locks.Lock) {
	first := mustWrite(t, ctx, l, locks.Version{}, suiteRecord("a", 1))
	second := mustWrite(t, ctx, l, first.Version, suiteRecord("a", 2))
	events := watch(t, ctx, l, first.Version)
	if e := nextEvent(t, ctx, events); e.Snapshot.Version.Number != second.Version.Number || !sameRecord(e.Snapshot.Record, second.Record) {
		t.Fatalf("watch after version %d began with %+v", first.Version.Number, e.Snapshot)
	}
	third := mustWrite(t, ctx, l, second.Version, suiteRecord("b", 3))
	e := nextEvent(t, ctx, events)
	if e.Snapshot.Version.Number != third.Version.Number {
		t.Fatalf("then came version %d, want %d", e.Snapshot.Version.Number, third.Version.Number)
	}
	mustWrite(t, ctx, l, e.Snapshot.Version, suiteRecord("c", 4)) // a version from a watch can be the base of a write
}

func watchEnds(t *testing.T, ctx context.Context, l locks.Lock) {
	s := mustWrite(t, ctx, l, locks.Version{}, suiteRecord("a", 1))
	watching, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = l.Watch(watching, s.Version, make(chan locks.Event)) // an error or nil: both are correct
	}()
	cancel()
	select {
	case <-ended:
	case <-ctx.Done():
		t.Fatal("the watch went on after its context had ended")
	}
}

func (s Suite) deletion(t *testing.T, ctx context.Context, l locks.Lock) {
	before := mustWrite(t, ctx, l, locks.Version{}, suiteRecord("a", 1))
	events := watch(t, ctx, l, before.Version)
	s.Delete(t, l)
	gone := nextEvent(t, ctx, events).Snapshot
	for gone.Version.Exists() { // a lock of several objects loses them one by one
		gone = nextEvent(t, ctx, events).Snapshot
	}
	if gone.Version.Number <= before.Version.Number {
		t.Fatalf("the watch told of the deletion as %+v", gone)
	}
	if now := mustRead(t, ctx, l); now.Version.Exists() {
		t.Fatal("the deleted record is still read")
	}
	onto := func(what string) {
		if _, err := l.Write(ctx, before.Version, suiteRecord("a", 2)); !errors.Is(err, locks.ErrConflict) {
			t.Fatalf("write to %s: %v, want ErrConflict", what, err)
		}
	}
	onto("a deleted record")
	again := mustWrite(t, ctx, l, gone.Version, suiteRecord("b", 3))
	if again.Version.Number <= gone.Version.Number || again.Version.UID == before.Version.UID {
		t.Fatalf("after the deletion of %+v came %+v", before.Version, again.Version)
	}
	onto("its successor")
}

func (s Suite) writeOfNothing(t *testing.T, ctx context.Context, l locks.Lock) {
	before := mustWrite(t, ctx, l, locks.Version{}, suiteRecord("a", 1))
	s.StoreNothing(t, l)
	for what, holder := range map[string]string{"renewal": "a", "acquisition": "b", "release": ""} {
		r := suiteRecord(holder, 2)
		if _, err := l.Write(ctx, before.Version, r); err == nil || errors.Is(err, locks.ErrConflict) {
			t.Errorf("a %s that nobody stored: %v, want an error that is no conflict", what, err)
		}
	}
}
