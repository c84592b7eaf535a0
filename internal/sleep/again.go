// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sleep

import "time"

// Again paces what is recreated whenever somebody has deleted it. The first time it is due at
// once. If something deletes it again and again, it is due after pauses that double from First to
// Most. It is due at once again when it has lasted for a minute. Its methods are not safe for
// concurrent use.
type Again struct {
	First, Most time.Duration

	made  time.Time
	pause time.Duration
}

// lasting is how long something must have lasted for its deletion to be a case of its own.
const lasting = time.Minute

// Due is when it may be recreated.
func (a *Again) Due() time.Time { return a.made.Add(a.pause) }

// Made notes that it is recreated now. It reports whether that is the first time, or the first
// since it lasted.
func (a *Again) Made(now time.Time) (first bool) {
	first = now.Sub(a.made) > a.pause+lasting
	a.pause = min(2*a.pause, a.Most)
	if first {
		a.pause = a.First
	}
	a.made = now
	return first
}
