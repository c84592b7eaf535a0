// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package candidate

import "time"

// advertisedHealth is what a presence says of its candidate's health. A candidate that
// falls ill is said to be ill at once. One that is well again is said to be well
// at once if it was well for long before; else once it has been well for a while,
// which doubles with each relapse. So health that keeps changing is written a few
// times, and counts as ill. It is pure, and decides nothing about its candidate.
type advertisedHealth struct {
	first, most time.Duration // the shortest while, and the longest

	why    string        // as it is; empty while all is well
	said   string        // as the presence says it
	saidAt time.Time     // when the presence said first that all was well again
	hold   time.Duration // how long it must be well before the presence says so
	due    time.Time     // when that is
}

// urgency is when a presence is to be written.
type urgency int

const (
	writeNever   urgency = iota
	writeNow             // now
	writeLater           // when it may wait for others
	writeWhenDue         // at due, if all is still well then
)

// set records why the candidate should not lead, and says when to write the presence
// for that.
func (a *advertisedHealth) set(why string, now time.Time) urgency {
	before := a.why
	a.why = why
	switch {
	case why == before:
		return writeNever
	case why == "" && a.hold > 0:
		a.due = now.Add(a.hold)
		return writeWhenDue
	case why == "":
		a.due = now
		return writeNow
	case before != "" || a.said != "":
		return writeLater
	}
	a.relapse(now)
	return writeNow
}

// relapse decides how long the candidate must be well the next time.
func (a *advertisedHealth) relapse(now time.Time) {
	if a.saidAt.IsZero() || now.Sub(a.saidAt) > steady {
		a.hold = 0
		return
	}
	a.hold = min(max(a.first, 2*a.hold), a.most)
}

// text is what the presence is to say now.
func (a *advertisedHealth) text(now time.Time) string {
	switch {
	case a.why != "":
		a.said = a.why
	case a.said != "" && !now.Before(a.due):
		a.said, a.saidAt = "", now
	}
	return a.said
}
