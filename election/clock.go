// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import "time"

// moment is a reading of a holder's clock: time that has passed on this
// machine, including time in which it was suspended. Go's monotonic clock
// leaves that out on Linux.
type moment struct {
	awake  time.Time     // carries the monotonic reading
	asleep time.Duration // how long the machine has been suspended so far
}

// since returns the time from earlier to m by the boot-time clock.
func (m moment) since(earlier moment) time.Duration {
	return m.awake.Sub(earlier.awake) + m.asleep - earlier.asleep
}

// clock reads moments. Under testing/synctest its awake part is virtual.
type clock struct {
	asleep func() time.Duration
}

func (c clock) now() moment {
	// In this order a suspension between the two readings counts as elapsed.
	// As the start of a trusted span that is still before what follows it.
	awake := time.Now()
	return moment{awake: awake, asleep: c.asleep()}
}
