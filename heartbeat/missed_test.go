// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/locks"
)

// TestL2AFollowerThatMissesAHeartbeatTakesNothing, although the lock's own Lease has not changed
// since it read it.
func TestL2AFollowerThatMissesAHeartbeatTakesNothing(t *testing.T) {
	led(t, 1, func(w *world, _ *process) {
		lock, err := w.process("b", false).common.lock("lock-0")
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

// TestS4AFollowerThatMissesHeartbeatsHearsOfNoDeletion: it has to read, and then waits for the
// lease of a holder that it has not seen. It counts from its sight of the last heartbeat if a
// watch without gaps tells of the deletion.
func TestS4AFollowerThatMissesHeartbeatsHearsOfNoDeletion(t *testing.T) {
	for what, dies := range map[string]bool{"the heartbeats go on": false, "the heartbeats end before": true} {
		t.Run(what, func(t *testing.T) {
			led(t, 1, func(w *world, a *process) {
				lock, err := w.process("b", false).common.lock("lock-0")
				if err != nil {
					t.Fatal(err)
				}
				elapse(w.Timing.RenewInterval)
				w.edit("lock-0", func(l *coordinationv1.Lease) { l.Labels = map[string]string{"edited": "yes"} }) // while b watches
				was, err := lock.Read(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				elapse(w.Timing.RenewInterval * 2) // there are heartbeats
				if dies {
					a.cut(true)
				}
				w.Delete(all + "lock-0")
				elapse(w.Timing.RenewInterval * 2)
				feed := lock.follow(was.Version)
				defer feed.close()
				events, err := feed.take()
				if len(events) > 0 || !errors.Is(err, locks.ErrVersionExpired) {
					t.Errorf("it hears of %d changes, and the feed ends with %v", len(events), err)
				}
				a.heal()
			})
		})
	}
}
