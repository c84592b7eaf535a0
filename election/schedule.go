// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
)

// action is what a campaign does next.
type action int

const (
	wait action = iota
	readOnce
	readFresh
	overtake // read on another connection: the request under way is slow, or lost
	claim
)

// news notes that the lock changed: all waiting starts again.
func (f *following) news(now time.Time) {
	f.heard, f.asked, f.prepared = now, time.Time{}, false
	f.refusals.reset()
}

// readFirst makes a read due at once. This candidate writes nothing before a read that is
// sent from now on has shown the state of the lock.
func (f *following) readFirst(now time.Time) { f.unsure, f.unsureAt, f.retryAt = true, now, now }

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
// answer, next decides only whether to claim, to overtake the request or to go on waiting.
func (f *following) next(now, free time.Time, known bool, waitsFor *flight) (action, time.Time) {
	later := now.Add(time.Hour)
	at := func(t time.Time) bool {
		if t.After(now) && t.Before(later) {
			later = t
		}
		return !t.After(now)
	}
	claiming := waitsFor != nil && waitsFor.op == opAcquire
	if known && !f.barred && !f.unsure && !claiming && at(rules.Latest(free, f.claimAt)) {
		return claim, now
	}
	if waitsFor != nil {
		if at(waitsFor.overdueAt(f.overtakeAfter, now)) || claiming && at(f.askAt) {
			return overtake, now
		}
		return wait, later
	}
	if f.unsure && at(f.retryAt) || f.refresh && at(rules.Latest(f.refreshAt, f.retryAt)) {
		return readOnce, now
	}
	if !known {
		return wait, later
	}
	if !f.prepared && at(rules.Latest(free.Add(-f.ahead-f.early), f.silentAt(), f.retryAt)) {
		return readFresh, now
	}
	if (f.asked.IsZero() || free.After(now)) && at(rules.Latest(f.askNext(), f.retryAt)) {
		return readFresh, now
	}
	return wait, later
}
