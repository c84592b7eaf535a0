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

// suspension says between which bounds the time lies for which the machine has been
// suspended so far.
type suspension struct{ least, most time.Duration }

// since returns the time from earlier to m by the boot-time clock, or less
// where the clock could not be read exactly.
func (m moment) since(earlier moment) time.Duration {
	return m.awake.Sub(earlier.awake) + max(0, m.asleep.least-earlier.asleep.most)
}

// sinceAtMost is since, or more where the clock could not be read exactly.
func (m moment) sinceAtMost(earlier moment) time.Duration {
	return m.awake.Sub(earlier.awake) + max(0, m.asleep.most-earlier.asleep.least)
}

// clock reads moments. Under testing/synctest its awake part is virtual.
type clock struct {
	asleep func() suspension
}

func (c clock) now() moment {
	// In this order a suspension between the two readings counts as elapsed.
	// As the start of a trusted span that is still before what follows it.
	awake := time.Now()
	return moment{awake: awake, asleep: c.asleep()}
}

const (
	// exact is how soon the three readings of measure follow each other, as a
	// rule: the time between them is then rounded away.
	exact = 100 * time.Microsecond
	// mostTries is how often measure tries to be that fast. A tracer, or a timer
	// that is emulated, may make each reading slow.
	mostTries = 4
)

// measure returns how long the machine has been suspended by two clocks, of
// which only boot runs on meanwhile. Both are read one after the other, so the
// result is exact, to the millisecond, only if that took no time. Otherwise it
// lies between the bounds that the fastest try gives.
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
