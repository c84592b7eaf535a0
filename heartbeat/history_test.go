// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"fmt"
	"testing"
	"time"

	"github.com/zonelect/zonelect/internal/history"
	"github.com/zonelect/zonelect/internal/record"
)

// TestALocksHistoryIsOnItsOwnLeaseWhateverAHeartbeatDoes: heartbeats, and a note that releases
// many locks (L8), leave it as it is. Whoever takes the lock next notes the token.
func TestALocksHistoryIsOnItsOwnLeaseWhateverAHeartbeatDoes(t *testing.T) {
	leavingOf(t, func(w *world, a *process) {
		histories := func() (all []string) {
			for i := range many {
				all = append(all, w.lease(fmt.Sprint("lock-", i)).Annotations[record.AnnotationHistory])
			}
			return all
		}
		before := histories()
		b := successor(w)
		elapse(time.Minute)
		for i, h := range histories() {
			if h == "" || h != before[i] {
				t.Errorf("lock-%d: after a minute of heartbeats it is %s, and it was %s", i, h, before[i])
			}
		}
		a.quit()
		elapse(time.Second)
		if n := b.leads(); n != many {
			t.Errorf("b leads %d of %d", n, many)
		}
		for i, h := range histories() {
			all, err := history.Parse(h)
			if err != nil || len(all) != 2 || all[0].Holder != "a" || all[0].Token == 0 || all[1].Holder != "b" || all[1].Cause != "released" || all[1].NobodyLed == nil {
				t.Errorf("lock-%d: %+v, %v", i, all, err)
			}
		}
	})
}
