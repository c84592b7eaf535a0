// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zonelect/zonelect/locks"
)

// TestL2AFollowerThatMissesAHeartbeatTakesNothing, although the lock's own Lease has not changed
// since it read it.
func TestL2AFollowerThatMissesAHeartbeatTakesNothing(t *testing.T) {
	led(t, 1, func(w *world, _ *process) {
		lock, err := w.process("b", false).common.New("lock-0")
		if err != nil {
			t.Fatal(err)
		}
		was, err := lock.Read(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		elapse(w.Timing.RenewInterval * 2) // there are heartbeats
		takeover := was.Record
		takeover.Holder, takeover.AcquireTime, takeover.Details = "b", time.Now(), locks.Details{Holder: "b"}
		if _, err := lock.Write(context.Background(), was.Version, takeover); !errors.Is(err, locks.ErrConflict) {
			t.Errorf("the takeover gave %v, want ErrConflict", err)
		}
		if got := w.holder("lock-0"); got != "a" {
			t.Errorf("%q holds the lock", got)
		}
	})
}
