// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"
	"time"

	"github.com/zonelect/zonelect/locks"
)

// TestWhatAHandDoesToAKeptRecordShortensNoWait: the holder may not know of it yet, and trusts
// renewals that this candidate has not seen.
func TestWhatAHandDoesToAKeptRecordShortensNoWait(t *testing.T) {
	const lease = 15 * time.Second
	start := time.Now()
	kept := locks.Snapshot{Kept: true, Version: locks.Version{Number: 1, UID: "u", Opaque: 1}, Record: locks.Record{
		Holder: "a", LeaseDuration: lease, AcquireTime: start, RenewTime: start,
	}}
	for what, change := range map[string]func(*locks.Snapshot){
		"it is not kept any more":              func(s *locks.Snapshot) { s.Kept = false },
		"nor has it a duration":                func(s *locks.Snapshot) { s.Kept, s.Record.LeaseDuration = false, 0 },
		"it is not kept any more, and shorter": func(s *locks.Snapshot) { s.Kept, s.Record.LeaseDuration = false, time.Second },
		"it is shorter when the next renewal comes": func(s *locks.Snapshot) {
			s.Record.LeaseDuration, s.Record.RenewTime = time.Second, start.Add(time.Second)
		},
		"it is shorter when an older renewal counts": func(s *locks.Snapshot) { s.Record.LeaseDuration, s.Record.RenewTime = time.Second, start.Add(-1e9) },
	} {
		o := NewObserver(Self{Identity: "b", Lease: lease})
		o.Observe(kept, start)
		now := kept
		now.Version.Number = 2
		change(&now)
		seen := start.Add(10 * time.Second)
		o.Observe(now, seen)
		if free, _ := o.Free(); free.At.Before(seen.Add(lease)) {
			t.Errorf("%s: free %v after that was seen, want %v", what, free.At.Sub(seen), lease)
		}
	}
}

// TestAHolderThatNeedNoLongerWaitSaysForHowLongAKeptRecordCounts: who creates a record notes the
// longest lease that somebody else may have had, and then its own.
func TestAHolderThatNeedNoLongerWaitSaysForHowLongAKeptRecordCounts(t *testing.T) {
	const lease, longer = 15 * time.Second, 30 * time.Second
	start := time.Now()
	s := locks.Snapshot{Kept: true, Version: locks.Version{Number: 1, UID: "u", Opaque: 1}, Record: locks.Record{
		Holder: "a", LeaseDuration: longer, AcquireTime: start, RenewTime: start, Details: locks.Details{Waits: "others may lead"},
	}}
	o := NewObserver(Self{Identity: "b", Lease: lease})
	for i, step := range []struct {
		waits string
		lasts time.Duration
		want  time.Duration
	}{{"others may lead", longer, longer}, {"others may lead", lease, longer}, {"", lease, lease}, {"", time.Second, lease}} {
		at := start.Add(time.Duration(i) * time.Second)
		s.Version.Number, s.Record.RenewTime = uint64(i+1), at
		s.Record.Details.Waits, s.Record.LeaseDuration = step.waits, step.lasts
		o.Observe(s, at)
		if free, _ := o.Free(); free.At.Sub(at) != step.want {
			t.Errorf("step %d: free after %v, want %v", i, free.At.Sub(at), step.want)
		}
	}
}

// TestS3AnOlderStateIsNoNews: another API server shows what its cache has, which this candidate
// has seen before, or which was before all that it has seen.
func TestS3AnOlderStateIsNoNews(t *testing.T) {
	const lease = 15 * time.Second
	start := time.Now()
	at := func(number uint64, holder string, renewed time.Duration) locks.Snapshot {
		return locks.Snapshot{Version: locks.Version{Number: number, UID: "u", Opaque: number}, Record: locks.Record{
			Holder: holder, LeaseDuration: lease, AcquireTime: start, RenewTime: start.Add(renewed),
		}}
	}
	released := at(3, "", time.Second)
	released.Record.LeaseDuration = time.Second
	o := NewObserver(Self{Identity: "b", Lease: lease})
	o.Observe(at(4, "a", 2*time.Second), start)
	o.Observe(at(5, "a", 4*time.Second), start.Add(2*time.Second))
	want, _ := o.Free()
	for what, s := range map[string]locks.Snapshot{
		"the renewal before": at(4, "a", 2*time.Second), "the last renewal": at(5, "a", 4*time.Second),
		"another holder": at(2, "c", 0), "a release": released, "no object yet": {Version: locks.Version{Number: 1}},
	} {
		if o.Observe(s, start.Add(4*time.Second)) || o.ObserveEvent(locks.Event{Snapshot: s, Gapless: true}, s.Version.Number-1, start.Add(4*time.Second)) {
			t.Errorf("%s is news", what)
		}
		if is, _ := o.Free(); is != want || o.Newest().Version.Number != 5 {
			t.Errorf("after %s: version %d, free at %v, want %v", what, o.Newest().Version.Number, is, want)
		}
	}
}
