// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package presence

import "time"

// advertisedHealth is what a presence says about its candidate's health. It reports a
// candidate that becomes unhealthy at once. It reports one that recovers at once if the
// candidate had been healthy for long before; otherwise after a healthy period, which
// doubles with each relapse. So health that keeps changing is written a few times, and
// counts as unhealthy. It is pure, and decides nothing about its candidate.
type advertisedHealth struct {
	first, most time.Duration // the shortest healthy period, and the longest

	why    string        // the current problem; empty while healthy
	said   string        // the problem that the presence reports
	saidAt time.Time     // when the presence first reported the recovery
	hold   time.Duration // how long it must be healthy before the presence says so
	due    time.Time     // when that is
}

// urgency says when a presence must be written.
type urgency int

const (
	writeNever   urgency = iota
	writeNow             // now
	writeLater           // when it may wait for others
	writeWhenDue         // at due, if it is still healthy then
)

// set records why the candidate should not lead, and says when the presence must be
// written.
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

// relapse decides how long the candidate must be healthy the next time.
func (a *advertisedHealth) relapse(now time.Time) {
	if a.saidAt.IsZero() || now.Sub(a.saidAt) > steady {
		a.hold = 0
		return
	}
	a.hold = min(max(a.first, 2*a.hold), a.most)
}

// text returns what the presence must say now.
func (a *advertisedHealth) text(now time.Time) string {
	switch {
	case a.why != "":
		a.said = a.why
	case a.said != "" && !now.Before(a.due):
		a.said, a.saidAt = "", now
	}
	return a.said
}
