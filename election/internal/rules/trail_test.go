// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"
	"time"

	"github.com/zonelect/zonelect/locks"
)

// TestS3WhatAWatchLeftOutAfterTheOwnRecordReclaimsNothing: somebody else may have had the lock
// meanwhile.
func TestS3WhatAWatchLeftOutAfterTheOwnRecordReclaimsNothing(t *testing.T) {
	start := time.Now()
	own := locks.Record{Holder: "a", LeaseDuration: 15 * time.Second, AcquireTime: start, RenewTime: start, Details: locks.Details{Nonce: "n", Token: 3}}
	at := func(number uint64, r locks.Record) locks.Snapshot {
		return locks.Snapshot{Version: locks.Version{Number: number, UID: "u", Opaque: number}, Record: r}
	}
	for after, mine := range map[uint64]bool{2: true, 3: true, 4: false, 5: false} {
		o := NewObserver(Self{Identity: "a", Nonce: "n", Lease: own.LeaseDuration})
		o.Won(3, own)
		o.Observe(at(3, own), start)
		o.Observe(at(5, locks.Record{}), start.Add(time.Second))
		o.ObserveEvent(locks.Event{Snapshot: at(6, locks.Record{LeaseDuration: time.Second}), Gapless: true}, after, start.Add(2*time.Second))
		if o.MayReclaim() != mine {
			t.Errorf("with a watch that leaves nothing out after %d, the emptied record is its own: %v", after, !mine)
		}
	}
}
