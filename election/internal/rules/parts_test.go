// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"
	"time"

	"github.com/zonelect/zonelect/locks"
)

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
	released := at("both", "", false, 0, time.Second)
	for what, tc := range map[string]struct {
		was  []locks.Snapshot
		is   locks.Snapshot
		want time.Duration
	}{
		"half a takeover":                           {[]locks.Snapshot{at("both", "a", false, 0, lease)}, at("one", "b", true, 1, lease), lease},
		"half a takeover from a longer lease":       {[]locks.Snapshot{at("both", "a", false, 0, longer)}, at("one", "b", true, 1, lease), longer},
		"half a takeover after a release":           {[]locks.Snapshot{released}, at("one", "b", true, 1, lease), lease},
		"half a renewal":                            {[]locks.Snapshot{at("both", "b", false, 0, lease)}, at("one", "b", true, 1, lease), lease},
		"the last renewal":                          {[]locks.Snapshot{at("both", "b", false, 0, lease)}, at("one", "b", true, 0, lease), lease},
		"half a takeover after a deletion":          {[]locks.Snapshot{at("both", "a", false, 0, lease), {}}, at("one", "b", true, 1, lease), lease},
		"one half, after the other":                 {[]locks.Snapshot{at("both", "a", true, 0, longer)}, at("one", "b", true, 1, lease), longer},
		"half a takeover, shown after the deletion": {[]locks.Snapshot{at("both", "a", false, 0, longer), at("one", "a", true, 0, lease)}, at("one", "b", true, 1, lease), longer},
		"an own record that somebody half took":     {[]locks.Snapshot{at("both", "a or b", false, 1, longer)}, at("both", "b", true, 0, lease), longer},
		"another's half takeover":                   {[]locks.Snapshot{at("both", "a", false, 0, longer)}, at("one", "c", true, 1, lease), longer},
		"the first half of a free record, no loss":  {[]locks.Snapshot{released}, at("both", "b", true, 1, lease), 0},
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
