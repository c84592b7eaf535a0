// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/zonelect/zonelect/locks"
)

// LongWarning warns of a lease that blocks a lock for long after a crash, once
// per value as long as it stays the same. The zero value is ready to use, also
// concurrently.
type LongWarning struct {
	warned atomic.Int64 // the duration that was last warned of
}

// See warns of d if it is above [MaxDuration] and was not warned of just
// before.
func (w *LongWarning) See(log logr.Logger, lock locks.Description, d time.Duration) {
	if d <= MaxDuration || w.warned.Swap(int64(d)) == int64(d) {
		return
	}
	log.Info("the lease duration on record is unusually long: it is honored, so that if its holder dies nobody leads for that time; if no holder is alive, set the "+lock.Kind+"'s leaseDurationSeconds to 1 and its renewTime to the present time by hand",
		"lock", lock.String(), "leaseDuration", d)
}
