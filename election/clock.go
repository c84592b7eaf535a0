// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import "time"

// moment is a reading of a holder's clock: time that has passed on this
// machine, including time in which it was suspended. Go's monotonic clock
// leaves that out on Linux.
type moment struct {
	awake  time.Time // carries the monotonic reading
	asleep suspension
}

// suspension holds the bounds of the time for which the machine has been suspended so far.
type suspension struct{ least, most time.Duration }

// since returns the time from earlier to m by the boot-time clock, or less if the clock
// could not be read exactly.
func (m moment) since(earlier moment) time.Duration {
	return m.awake.Sub(earlier.awake) + max(0, m.asleep.least-earlier.asleep.most)
}

// sinceAtMost is since, or more if the clock could not be read exactly.
func (m moment) sinceAtMost(earlier moment) time.Duration {
	return m.awake.Sub(earlier.awake) + max(0, m.asleep.most-earlier.asleep.least)
}

// clock reads moments. Under testing/synctest its awake part is virtual.
type clock struct {
	asleep func() suspension
}

func (c clock) now() moment {
	// In this order a suspension between the two readings counts as elapsed. That is safe
	// for the start of a trusted span, too: the start is still before what follows it.
	awake := time.Now()
	return moment{awake: awake, asleep: c.asleep()}
}

const (
	// exact is the time within which measure usually makes its three readings. Rounding
	// then removes the time between them.
	exact = 100 * time.Microsecond
	// mostTries is how many times measure tries to be that fast. A tracer or an emulated
	// timer may make each reading slow.
	mostTries = 4
)

// measure returns how long the machine has been suspended, from two clocks. Only boot runs
// during a suspension. measure reads one clock after the other, so the result is exact, to
// the millisecond, only if that took almost no time. Otherwise it lies between the bounds
// that the fastest try gives.
func measure(monotonic, boot func() time.Duration) suspension {
	var best suspension
	fastest := time.Duration(-1)
	before := monotonic()
	for range mostTries {
		booted := boot()
		after := monotonic()
		took := after - before
		if took < exact {
			slept := (booted - before).Round(time.Millisecond)
			return suspension{slept, slept}
		}
		if fastest < 0 || took < fastest {
			fastest, best = took, suspension{least: booted - after, most: booted - before}
		}
		before = after
	}
	return best
}
