// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
)

// news notes that the lock changed: all waiting starts again.
func (f *following) news(now time.Time) {
	f.heard, f.asked, f.prepared = now, time.Time{}, false
	f.refusals.reset()
}

// readFirst makes a read due at once. This candidate writes nothing before a read that is
// sent from now on has shown the state of the lock.
func (f *following) readFirst(now time.Time) {
	f.exchange.doubt()
	f.retryAt = now
}

// silence is how long this candidate hears nothing before it reads by itself. It hears less
// often of a holder whose renewals take long. The shorter of the last two gaps between
// events counts, so that one late renewal does not.
func (f *following) silence() time.Duration {
	gap := min(f.gaps[0], f.gaps[1], f.config.Timing.LeaseDuration/3)
	return max(f.config.Timing.Silence(), gap*3/2)
}

// silentAt is when this candidate has heard nothing for so long that it reads by itself.
func (f *following) silentAt() time.Time { return f.heard.Add(f.silence() + f.delay) }

// askNext is when this candidate reads by itself unless it hears something: after a silence, and
// then seldom. A record that keeps it waiting for longer, perhaps forever, may have changed since,
// and its watch may be silent.
func (f *following) askNext() time.Time {
	if f.asked.IsZero() {
		return f.silentAt()
	}
	pause := max(time.Minute, 2*f.config.Timing.LeaseDuration)
	return f.asked.Add(pause + time.Duration(f.share*float64(pause)))
}

// next decides what to do now, or until when to wait. free is when the lock may be taken,
// takeover delay included; known says whether that is known. While this candidate waits for an
// answer, it reads nothing that it could do without.
func (f *following) next(now, free time.Time, known bool) (step, time.Time) {
	needs := wants{read: f.retryAt}
	if known && !f.barred {
		needs.write = rules.Latest(free, f.claimAt)
	}
	do, until := f.exchange.next(now, needs)
	if do != wait || f.exchange.busy() {
		return do, until
	}
	due := func(at ...time.Time) bool {
		t := rules.Latest(append(at, f.retryAt)...)
		until = rules.Earliest(until, t)
		return !t.After(now)
	}
	switch {
	case f.refresh && due(f.refreshAt):
		return read, now
	case !known:
	case !f.prepared && due(free.Add(-f.ahead-f.early), f.silentAt()),
		(f.asked.IsZero() || free.After(now)) && due(f.askNext()):
		return readFresh, now
	}
	return wait, until
}
