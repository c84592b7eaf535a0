// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"
	"time"

	"github.com/zonelect/zonelect/locks"
)

// TestAnAcquisitionThatRepeatsReplacesItsOwnTermAlone: the others stay as they are, whatever a
// later version added to them.
func TestAnAcquisitionThatRepeatsReplacesItsOwnTermAlone(t *testing.T) {
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	const own, new, b = `{"acquired":"2026-11-23T12:00:00Z","cause":"expired","holder":"me"}`, `{"new":1,"holder":"a","token":5}`, `{"holder":"b"}`
	for _, before := range []string{"[" + own + "]", "[" + new + "," + own + "]", "[" + new + "," + b + "," + own + "]"} {
		o := NewObserver(Self{Identity: "me"})
		landed := locks.Record{Holder: "me", AcquireTime: noon, RenewTime: noon, Details: locks.Details{Holder: "me"}, History: before}
		o.Observe(locks.Snapshot{Version: locks.Version{Number: 7, Opaque: 7}, Record: landed}, noon)
		if got := o.HistoryWith(landed, Freeing{Cause: "expired"}, true, noon); got != before {
			t.Errorf("after %q it is %q", before, got)
		}
	}
}
