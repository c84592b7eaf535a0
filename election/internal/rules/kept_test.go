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
