// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"
	"time"

	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// at is a record at a version of one object.
func at(number uint64, r locks.Record) locks.Snapshot {
	return locks.Snapshot{Version: locks.Version{Number: number, UID: "u", Opaque: r}, Record: r}
}

// TestS3AnOlderStateIsNoNews: another API server shows what its cache has, which this candidate
// has seen before, or which was before all that it has seen.
func TestS3AnOlderStateIsNoNews(t *testing.T) {
	const lease = 15 * time.Second
	start := time.Now()
	held := func(number uint64, holder string, renewed time.Duration) locks.Snapshot {
		return at(number, locks.Record{Holder: holder, LeaseDuration: lease, AcquireTime: start, RenewTime: start.Add(renewed)})
	}
	released := held(3, "", time.Second)
	released.Record.LeaseDuration = time.Second
	o := NewObserver(Self{Identity: "b", Lease: lease})
	o.Observe(held(4, "a", 2*time.Second), start)
	o.Observe(held(5, "a", 4*time.Second), start.Add(2*time.Second))
	want, _ := o.Free()
	for what, s := range map[string]locks.Snapshot{
		"the renewal before": held(4, "a", 2*time.Second), "the last renewal": held(5, "a", 4*time.Second),
		"another holder": held(2, "c", 0), "a release": released, "no object yet": {Version: locks.Version{Number: 1}},
	} {
		e, now := locks.Event{Snapshot: s, Gapless: true}, start.Add(4*time.Second)
		if o.Observe(s, now) || o.ObserveEvent(e, s.Version.Number-1, now) {
			t.Errorf("%s is news", what)
		}
		if is, _ := o.Free(); is != want || o.Newest().Version.Number != 5 {
			t.Errorf("after %s: version %d, free at %v, want %v", what, o.Newest().Version.Number, is, want)
		}
	}
}

// TestS2AFormerHolderWaitsALeaseForItsOwnRestoredRecord: whoever led after it may still lead.
func TestS2AFormerHolderWaitsALeaseForItsOwnRestoredRecord(t *testing.T) {
	const lease = 15 * time.Second
	start := time.Now()
	held := func(number uint64, holder string) locks.Snapshot {
		return at(number, locks.Record{
			Holder: holder, LeaseDuration: lease, AcquireTime: start.Add(time.Duration(number) * time.Second), RenewTime: start,
			Details: locks.Details{Holder: holder, Nonce: holder},
		})
	}
	for followed, want := range map[bool]time.Duration{true: lease, false: 0} {
		o := NewObserver(Self{Identity: "a", Nonce: "a", Lease: lease})
		own := held(5, "a")
		o.Observe(own, start)
		o.Forfeit() // of an earlier term
		o.Won(5, own.Record)
		newest := held(6, "a")
		if newest.Record.AcquireTime = own.Record.AcquireTime; followed {
			newest = held(6, "b")
		}
		o.Observe(newest, start.Add(time.Second))
		seen := start.Add(time.Minute)
		o.ObserveRead(own, newest.Version, false, seen)
		if free, _ := o.Free(); free.At.Sub(seen) != want {
			t.Errorf("followed=%v: free after %v, want %v", followed, free.At.Sub(seen), want)
		}
	}
}

// TestS3ARenewalThatOnlyAReadShowsAgainIsWaitedForAnew: somebody may have put it back over that of a later leader.
func TestS3ARenewalThatOnlyAReadShowsAgainIsWaitedForAnew(t *testing.T) {
	const lease = 15 * time.Second
	start := time.Now()
	r := locks.Record{Holder: "a", LeaseDuration: lease, RenewTime: start, Details: locks.Details{Holder: "a", Token: 4}}
	o := NewObserver(Self{Identity: "b", Lease: lease})
	for _, step := range []struct {
		number uint64
		read   bool
		want   time.Duration
	}{
		{5, true, lease}, {5, true, lease}, {6, true, lease + 10*time.Second},
		{7, false, lease + 10*time.Second}, {8, true, lease + 30*time.Second},
	} {
		if now := start.Add(10 * time.Second * time.Duration(step.number-5)); step.read {
			o.ObserveRead(at(step.number, r), o.Newest().Version, false, now)
		} else {
			o.ObserveEvent(locks.Event{Snapshot: at(step.number, r), Gapless: true}, step.number-1, now)
		}
		if free, _ := o.Free(); free.At.Sub(start) != step.want {
			t.Errorf("after %+v it is free after %v", step, free.At.Sub(start))
		}
	}
}

// TestS3TheLeaseOfTheHolderCounts, not the candidate's own. If nobody knows what became of the holder, the longer counts.
func TestS3TheLeaseOfTheHolderCounts(t *testing.T) {
	const own = 15 * time.Second
	start := time.Now()
	for lease, want := range map[time.Duration]struct{ held, deleted, emptied time.Duration }{
		time.Minute:     {time.Minute, time.Minute, time.Minute},
		5 * time.Second: {5 * time.Second, 5 * time.Second, own},
		0:               {Longest, Longest, Longest}, // it does not say for how long
	} {
		r := locks.Record{Holder: "a", LeaseDuration: lease, RenewTime: start}
		o := NewObserver(Self{Identity: "b", Lease: own})
		is := func(what string, number uint64, opaque any, want time.Duration) {
			t.Helper()
			o.Observe(locks.Snapshot{Version: locks.Version{Number: number, UID: "u", Opaque: opaque}, Record: r}, start)
			if free, _ := o.Free(); free.At.Sub(start) != want {
				t.Errorf("a lease of %v that is %s is free after %v, want %v", lease, what, free.At.Sub(start), want)
			}
		}
		is("held", 1, true, want.held)
		is("deleted", 2, nil, want.deleted)
		r.Holder = ""
		is("emptied", 3, true, want.emptied)
	}
}

// TestS4WhatIsLeftOfARecordIsNoTerm: whoever led by the part that is gone may not know it yet.
func TestS4WhatIsLeftOfARecordIsNoTerm(t *testing.T) {
	const lease, longer = 15 * time.Second, 30 * time.Second
	start := time.Now()
	at := func(uid, holder string, partial bool, renewed, lasts time.Duration) locks.Snapshot {
		r := locks.Record{
			Holder: holder, LeaseDuration: lasts, AcquireTime: start, RenewTime: start.Add(renewed),
			Details: locks.Details{Holder: holder, Nonce: holder},
		}
		return locks.Snapshot{Version: locks.Version{UID: uid, Opaque: 1}, Record: r, Partial: partial}
	}
	released, half := at("both", "", false, 0, time.Second), at("one", "b", true, 1, lease)
	type seen = []locks.Snapshot
	for what, tc := range map[string]struct {
		was  seen
		is   locks.Snapshot
		want time.Duration
	}{
		"half a takeover":                          {seen{at("both", "a", false, 0, lease)}, half, lease},
		"half a takeover from a longer lease":      {seen{at("both", "a", false, 0, longer)}, half, longer},
		"half a takeover after a release":          {seen{released}, half, lease},
		"half a renewal":                           {seen{at("both", "b", false, 0, lease)}, half, lease},
		"the last renewal":                         {seen{at("both", "b", false, 0, lease)}, at("one", "b", true, 0, lease), lease},
		"half a takeover after a deletion":         {seen{at("both", "a", false, 0, lease), {}}, half, lease},
		"one half, after the other":                {seen{at("both", "a", true, 0, longer)}, half, longer},
		"half a takeover, shown after a deletion":  {seen{at("both", "a", false, 0, longer), at("one", "a", true, 0, lease)}, half, longer},
		"an own record that somebody half took":    {seen{at("both", "a or b", false, 1, longer)}, at("both", "b", true, 0, lease), longer},
		"another's half takeover":                  {seen{at("both", "a", false, 0, longer)}, at("one", "c", true, 1, lease), longer},
		"the first half of a free record, no loss": {seen{released}, at("both", "b", true, 1, lease), 0},
	} {
		o := NewObserver(Self{Identity: "b", Nonce: "b", Lease: lease})
		for i, s := range append(tc.was, tc.is) {
			s.Version.Number = uint64(i + 1)
			if s.Version.UID == "" {
				s.Version.Opaque = nil
			}
			now := start.Add(time.Duration(i) * time.Hour)
			if i == 0 {
				o.ObserveEvent(locks.Event{Snapshot: s}, 0, now) // of a watch that may leave something out
			}
			o.Observe(s, now)
		}
		seen := start.Add(time.Duration(len(tc.was)) * time.Hour)
		if free, _ := o.Free(); free.At.Sub(seen) != tc.want {
			t.Errorf("%s: free %v after it was seen, want %v", what, free.At.Sub(seen), tc.want)
		}
	}
}

// TestAnAnswerThatStaysAwayAfterALaterOneCameIsNoOutage: a request that was sent before may be lost on its connection.
func TestAnAnswerThatStaysAwayAfterALaterOneCameIsNoOutage(t *testing.T) {
	start := time.Now()
	at := func(seconds time.Duration) time.Time { return start.Add(seconds * time.Second) }
	o := NewOutage(10*time.Second, 2*time.Second, start)
	o.Answered(at(5))
	o.Missed(at(4))
	if over := o.Over(at(15)); over.After(at(15)) {
		t.Errorf("an outage is over %v after the last answer", over.Sub(at(5)))
	}
	o.Missed(at(6))
	if over := o.Over(at(15)); over != at(17) {
		t.Errorf("an outage that lasts for 10s is over after %v, want a precedence more", over.Sub(at(5)))
	}
}

// TestWhatARecordSaysOfACandidateReadsBackAsItIs: else its leader would mend the record after each
// acquisition.
func TestWhatARecordSaysOfACandidateReadsBackAsItIs(t *testing.T) {
	for name, pod := range map[string]locks.Pod{
		"none": {}, "whole": {Name: "op-0", UID: "u"}, "without POD_UID": {Name: "op-0"}, "without a name": {UID: "u"},
	} {
		said := DetailsOf(locks.Candidate{Identity: "op-0_1", Zone: "za", Node: "n", Pod: pod})
		lease := record.Write(nil, locks.Record{Holder: "op-0_1", Details: said})
		if read := record.Read(lease).Details; read.Pod != said.Pod {
			t.Errorf("%s: %+v reads as %+v", name, said.Pod, read.Pod)
		}
	}
}

// TestS6AnEarlierReadRevivesNoDeletedRecord: of two reads that were sent while there was a record, the second
// found none, and was answered first.
func TestS6AnEarlierReadRevivesNoDeletedRecord(t *testing.T) {
	o, now := NewObserver(Self{Identity: "me", Lease: time.Second}), time.Unix(0, 0)
	there := at(10, locks.Record{Holder: "you", LeaseDuration: time.Second})
	o.Observe(there, now)
	gone := locks.Snapshot{}
	o.ObserveRead(gone, there.Version, false, now)
	renewed, anew := there, there
	renewed.Version.Number, anew.Version.Number, anew.Version.UID = 11, 12, "v"
	for _, s := range []locks.Snapshot{there, renewed} {
		for _, asOf := range []locks.Version{{}, {Number: 8}, there.Version} {
			if o.ObserveRead(s, asOf, false, now) || o.Newest().Version.Exists() {
				t.Errorf("version %d is there again, by a read that was sent as of %+v", s.Version.Number, asOf)
			}
		}
	}
	created := *o
	if !created.ObserveRead(anew, there.Version, false, now) || created.Newest().Version != anew.Version {
		t.Error("one that was created since is not seen")
	}
	if !o.ObserveRead(there, o.Newest().Version, false, now) || !o.Newest().Version.Exists() {
		t.Error("a read that was sent later shows it in vain")
	}
}

// TestS4ANewcomerWaitsAfterItsCreation also on a lock whose watches skip states.
func TestS4ANewcomerWaitsAfterItsCreation(t *testing.T) {
	o := NewObserver(Self{Identity: "a", Lease: 15 * time.Second, WaitOnAbsent: true})
	o.ObserveEvent(locks.Event{Bookmark: true}, 0, time.Now())
	if _, r := o.Takeover(locks.Candidate{Identity: "a"}, time.Now()); r.Details.Waits != PastUnknown {
		t.Error(r)
	}
}
