// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"
	"time"

	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
)

// TestS3AReleaseIsBelievedByTheTokenOfTheTermItEnds, whatever admission made of its times. client-go's updates
// keep what the last zonelect term noted, so that a token which is merely there says nothing.
func TestS3AReleaseIsBelievedByTheTokenOfTheTermItEnds(t *testing.T) {
	start := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	const lease = 15 * time.Second
	term := locks.Record{
		Holder: "a", LeaseDuration: lease, AcquireTime: start, RenewTime: start.Add(time.Minute), Transitions: 4,
		Details: locks.Details{Holder: "a", Nonce: "n", Token: 17},
	}
	release := Release(term, 17, "", locks.Handover{}, start.Add(time.Minute+300*time.Millisecond))
	but := func(r locks.Record, change func(*locks.Record)) locks.Record { change(&r); return r }
	raised := func(r *locks.Record) { r.LeaseDuration = time.Minute }
	cut := func(r *locks.Record) {
		r.RenewTime, r.AcquireTime = r.RenewTime.Truncate(time.Second), r.AcquireTime.Truncate(time.Second)
	}
	other := but(release, func(r *locks.Record) { r.Details.Token, r.Details.Released = 16, 16 })
	goes := but(release, func(r *locks.Record) { r.Holder, r.LeaseDuration, r.Transitions = "client-go", lease, 5 })
	left := but(goes, func(r *locks.Record) { r.Holder, r.LeaseDuration, r.RenewTime = "", time.Second, start.Add(time.Hour) })
	later := but(term, func(r *locks.Record) {
		r.Holder, r.Details.Holder, r.Details.Token, r.Transitions = "b", "b", 20, 5
	})
	for what, row := range map[string]struct {
		was, is  locks.Record
		believed bool
	}{
		"as it was written":                        {term, release, true},
		"with a longer duration":                   {term, but(release, raised), true},
		"with times cut to seconds":                {term, but(release, cut), true},
		"of a term that was never renewed":         {but(term, func(r *locks.Record) { r.Details.Token = 0 }), but(release, raised), true},
		"of another token":                         {term, but(other, raised), false},
		"client-go's":                              {goes, left, true},
		"client-go's with a longer duration":       {goes, but(left, raised), false},
		"a record of client-go's that was emptied": {goes, but(goes, func(r *locks.Record) { r.Holder = "" }), false},
		"the same, and nobody saw client-go":       {term, but(goes, func(r *locks.Record) { r.Holder = "" }), false},
		"an earlier one that was put back":         {later, release, false},
		"the same, after a term of a second":       {but(later, func(r *locks.Record) { r.LeaseDuration = time.Second }), release, false},
	} {
		o := NewObserver(Self{Identity: "me", Lease: lease})
		for i, r := range []locks.Record{row.was, row.is} {
			o.Observe(at(uint64(i+20), r), start)
		}
		free, _ := o.Free()
		if believed := free.Cause == status.CauseReleased; believed != row.believed || !believed && free.At.Before(start.Add(lease)) {
			t.Errorf("%s: free %v later, because it was %s", what, free.At.Sub(start), free.Cause)
		}
	}
}

// TestS3AReleaseThatARestoredBackupShowsFreesNothing, though it is of the term that was seen last: somebody may
// have led since.
func TestS3AReleaseThatARestoredBackupShowsFreesNothing(t *testing.T) {
	start := time.Now()
	const lease = 15 * time.Second
	term := locks.Record{Holder: "a", LeaseDuration: lease, RenewTime: start, Details: locks.Details{Holder: "a", Token: 17}}
	o := NewObserver(Self{Identity: "me", Lease: lease})
	seen := at(40, term)
	o.Observe(seen, start)
	o.ObserveRead(at(20, Release(term, 17, "", locks.Handover{}, start.Add(time.Second))), seen.Version, false, start.Add(time.Minute))
	if free, _ := o.Free(); free.At.Before(start.Add(time.Minute + lease)) {
		t.Errorf("free %v after the restore, because it was %s", free.At.Sub(start.Add(time.Minute)), free.Cause)
	}
}

// TestS3AReleaseThatWasPutBackOnANewObjectFreesNothing, unless it is of the term that was seen last.
func TestS3AReleaseThatWasPutBackOnANewObjectFreesNothing(t *testing.T) {
	start := time.Now()
	const lease = 15 * time.Second
	term := func(holder string, token uint64) locks.Record {
		return locks.Record{Holder: holder, LeaseDuration: lease, RenewTime: start, Details: locks.Details{Holder: holder, Token: token}}
	}
	ours, won, goes := term("a", 17), term("b", 0), locks.Record{Holder: "c", LeaseDuration: lease, RenewTime: start}
	ourRelease := Release(ours, 17, "", locks.Handover{}, start.Add(-time.Minute))
	goRelease := locks.Record{LeaseDuration: time.Second, RenewTime: start.Add(-time.Minute)}
	for what, row := range map[string]struct {
		was, is  locks.Record
		believed bool
	}{
		"its own":                               {ours, ourRelease, true},
		"a later one of ours, seen by nobody":   {ours, Release(term("b", 19), 19, "", locks.Handover{}, start.Add(-time.Minute)), false},
		"ours, over client-go's term":           {goes, ourRelease, false},
		"ours, over a term without a renewal":   {won, ourRelease, false},
		"client-go's, over ours":                {ours, goRelease, false},
		"client-go's, over client-go's":         {goes, goRelease, false},
		"client-go's, over one without renewal": {won, goRelease, false},
	} {
		o := NewObserver(Self{Identity: "me", Lease: lease})
		o.Observe(at(20, row.was), start)
		o.Observe(locks.Snapshot{Version: locks.Version{Number: 21}}, start)
		o.Observe(locks.Snapshot{Version: locks.Version{Number: 22, UID: "v", Opaque: row}, Record: row.is}, start)
		if free, _ := o.Free(); !free.At.Before(start.Add(lease)) == row.believed {
			t.Errorf("%s: free %v later, because it was %s", what, free.At.Sub(start), free.Cause)
		}
	}
}

// TestS3OnlyTheTermThatWasThereAtTheStartEndsWithThePredecessor: whoever led since may live. The record
// that is put back may look as if it were the next term.
func TestS3OnlyTheTermThatWasThereAtTheStartEndsWithThePredecessor(t *testing.T) {
	start := time.Now()
	record := func(holder string, transitions int32) locks.Record {
		return locks.Record{
			Holder: holder, LeaseDuration: time.Minute, AcquireTime: start, RenewTime: start, Transitions: transitions,
			Details: locks.Details{Holder: holder, ProcessLock: holder + "/1"},
		}
	}
	mine, other := record("mine", 3), record("other", 2)
	for _, row := range []struct {
		uids string // of the objects
		seen []locks.Record
		died bool
	}{
		{"u", []locks.Record{mine}, true},
		{"uu", []locks.Record{mine, mine}, true},
		{"uu", []locks.Record{other, mine}, false},
		{"uuu", []locks.Record{mine, record("other", 4), mine}, false},
		{"uv", []locks.Record{mine, mine}, false},
	} {
		o := NewObserver(Self{Identity: "me", Lease: time.Minute})
		o.Follow("mine/2")
		for i, r := range row.seen {
			r.RenewTime = start.Add(time.Duration(i) * time.Second)
			o.Observe(locks.Snapshot{Version: locks.Version{Number: uint64(i + 1), UID: row.uids[i : i+1], Opaque: r}, Record: r}, start)
		}
		if free, _ := o.Free(); (free.Cause == status.CauseDied) != row.died {
			t.Errorf("after %v on %s the lock is free, because it was %s", row.seen, row.uids, free.Cause)
		}
	}
	o := NewObserver(Self{Identity: "me", Lease: time.Minute})
	o.Follow("mine/2")
	o.Observe(at(9, mine), start)
	o.ObserveRead(at(3, mine), at(9, mine).Version, false, start)
	if free, _ := o.Free(); free.Cause == status.CauseDied {
		t.Error("a restored backup is believed")
	}
}

// TestS3AnAcquisitionOfItsOwnThatWasPutBackIsNotReclaimedAtOnce, though it never became a term.
func TestS3AnAcquisitionOfItsOwnThatWasPutBackIsNotReclaimedAtOnce(t *testing.T) {
	start := time.Now()
	const lease = time.Minute
	o := NewObserver(Self{Identity: "me", Nonce: "n", Lease: lease})
	number := uint64(0)
	sees := func(r locks.Record) time.Duration {
		number++
		o.Observe(at(number, r), start)
		free, _ := o.Free()
		return free.At.Sub(start)
	}
	other := locks.Record{Holder: "b", LeaseDuration: lease, RenewTime: start, Details: locks.Details{Holder: "b"}}
	sees(other)
	_, taken := o.Takeover(locks.Candidate{Identity: "me"}, start)
	if wait := sees(taken); wait != 0 || !o.Holds() {
		t.Errorf("its own acquisition is reclaimed after %v", wait)
	}
	other.Transitions = taken.Transitions + 1
	sees(other)
	if wait := sees(taken); wait != lease || o.Holds() {
		t.Errorf("the acquisition that was put back is reclaimed after %v", wait)
	}
}
