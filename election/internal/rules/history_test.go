// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"
	"time"

	"github.com/zonelect/zonelect/locks"
)

// TestAnAcquisitionThatRepeatsReplacesItsOwnLineAlone: the others stay as they are, whatever a
// later version added to them.
func TestAnAcquisitionThatRepeatsReplacesItsOwnLineAlone(t *testing.T) {
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	const own = "2026-11-23T12:00:00.000Z me - - expired -"
	for before, want := range map[locks.History]locks.History{
		own:                              own,
		"- a - 5 - - new=1\n" + own:      "- a - 5 - - new=1\n" + own,
		"- a - 5 - - new=1\n- b\n" + own: "- a - 5 - - new=1\n- b\n" + own,
	} {
		o := NewObserver(Self{Identity: "me"})
		landed := locks.Record{Holder: "me", AcquireTime: noon, RenewTime: noon, Details: locks.Details{Holder: "me"}, History: before}
		o.Observe(locks.Snapshot{Version: locks.Version{Number: 7, Opaque: 7}, Record: landed}, noon)
		if got := o.HistoryWith(landed, Freeing{Cause: "expired"}, true, noon); got != want {
			t.Errorf("after %q it is %q", before, got)
		}
	}
}
