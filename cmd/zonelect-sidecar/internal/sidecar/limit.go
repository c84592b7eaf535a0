// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sidecar

import (
	"errors"
	"time"

	"github.com/zonelect/zonelect/election"
)

// part is the part of a time to stop that is left for killing: a fifth.
const part = 5

// most is how much of a time to stop the command or a program that polls may use.
func most(d time.Duration) time.Duration { return d - d/part }

// limit says until when the command of a term may run. It does no I/O: tell it the time.
//
// A command that was asked to stop has most of the StopTimeout, because the lock is renewed
// meanwhile. From the end of trust on it has most of the StopGrace, whatever else holds. Trust
// may end while this process does not run, so the limit keeps the end that it has seen coming.
type limit struct {
	timing election.Timing
	until  time.Time // trust ends then, as far as is known
	over   bool      // trust has ended
	asked  time.Time // when the command was asked to stop; zero before
	lost   bool      // because the term is lost
}

// trust notes for how much longer the term is trusted.
func (l *limit) trust(now time.Time, left time.Duration) {
	switch l.over = left <= 0; {
	case !l.over:
		l.until = now.Add(left)
	case l.until.IsZero(), elapsed(l.until, now) < 0: // it ended early
		l.until = now
	}
}

// ask notes that the command is asked to stop.
func (l *limit) ask(now time.Time, cause error) {
	l.asked, l.lost = now, errors.Is(cause, election.ErrLost)
}

// kill reports whether the command must be killed now.
func (l *limit) kill(now time.Time) bool {
	switch grace := most(l.timing.StopGrace); {
	case l.over && elapsed(l.until, now) >= grace:
		return true
	case l.asked.IsZero():
		return false
	case l.lost:
		return elapsed(l.asked, now) >= grace
	}
	return elapsed(l.asked, now) >= most(l.timing.StopTimeout)
}

// interval is how often the limit must be asked: often enough that being late by one takes a
// quarter of what is left for killing.
func (l *limit) interval() time.Duration { return l.timing.StopGrace / part / 4 }

// elapsed returns how long after then now is. Go's monotonic clock leaves out time in which the
// machine was suspended, and the wall clock may be set back, so the longer of both counts.
func elapsed(then, now time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}
