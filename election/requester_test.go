// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"testing"

	"github.com/zonelect/zonelect/locks"
)

// TestS6AVersionOfAHeartbeatSupersedesNoWrite: it says nothing of the version of the lock's own record.
func TestS6AVersionOfAHeartbeatSupersedesNoWrite(t *testing.T) {
	write := request{op: opRenew, base: locks.Version{Number: 7, Opaque: 7}}
	for shown, superseded := range map[locks.Snapshot]bool{
		{Version: locks.Version{Number: 7, Opaque: 7}}:             false,
		{Version: locks.Version{Number: 8, Opaque: 8}}:             true,
		{Version: locks.Version{Number: 8, Opaque: 8}, Kept: true}: false,
		{}: false, // it is gone
	} {
		if write.isSuperseded(shown) != superseded {
			t.Errorf("%+v: %v", shown, !superseded)
		}
	}
}
