// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"math"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
)

// FuzzObserver sees any first record. The lock counts as given up only if the record says
// so. Otherwise nobody takes it before the lease in the record is over, however long it is.
func FuzzObserver(f *testing.F) {
	f.Add("a", "a", uint64(17), uint64(0), int64(15), int64(0), int64(0))
	f.Add("", "a", uint64(17), uint64(17), int64(1), int64(0), int64(0))
	f.Add("", "a", uint64(0), uint64(0), int64(1), int64(0), int64(0))
	f.Add("", "a", uint64(17), uint64(16), int64(3600), int64(-60), int64(-60))
	f.Add("a", "me", uint64(17), uint64(0), int64(math.MaxInt64/int64(time.Second)), int64(-10), int64(-10))
	f.Add("a", "", uint64(0), uint64(0), int64(-5), int64(251_000_000_000), int64(0))
	f.Add("a", "", uint64(0), uint64(0), int64(math.MaxInt32), int64(-10), int64(-10))
	f.Add("me", "me", uint64(17), uint64(0), int64(15), int64(-10), int64(-10))
	f.Fuzz(func(t *testing.T, holder, noted string, token, released uint64, seconds, acquired, renewed int64) {
		const most = math.MaxInt64 / int64(time.Second)
		if seconds > most || max(acquired, -acquired, renewed, -renewed) > 300_000_000_000 {
			t.Skip("no lock gives that")
		}
		const lease = 15 * time.Second
		now := time.Now()
		r := locks.Record{
			Holder: holder, LeaseDuration: time.Duration(seconds) * time.Second, Transitions: 3,
			AcquireTime: time.Unix(now.Unix()+acquired, 0), RenewTime: time.Unix(now.Unix()+renewed, 0),
			Details: locks.Details{Holder: noted, Token: token, Released: released},
		}
		o := NewObserver(Self{Identity: "me", Lease: lease})
		o.Observe(locks.Snapshot{Version: locks.Version{Number: 1, UID: "u", Opaque: r}, Record: r}, now)
		free, _ := o.Free()
		full := min(r.LeaseDuration, Longest)
		if full <= 0 {
			full = lease
		}
		switch free.Cause {
		case status.CauseReclaimed:
			if noted != "me" && holder != "me" {
				t.Errorf("%+v is taken for its own record", r)
			}
		case status.CauseReleased:
			if holder != "" || noted != "" && (token == 0 || token != released) {
				t.Errorf("%+v is taken for given up", r)
			}
		case status.CauseCleared:
			if free.At.Before(now.Add(max(full, lease))) {
				t.Errorf("%+v is free %v after it was seen", r, free.At.Sub(now))
			}
		case status.CauseExpired:
			if free.At.Before(now.Add(full)) {
				t.Errorf("%+v is free %v after it was seen", r, free.At.Sub(now))
			}
		default:
			t.Errorf("%+v is free since it is %s", r, free.Cause)
		}
	})
}
