// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import "time"

// Outage is what a candidate makes of the API being away. Nobody could renew
// meanwhile, so that a lease which ran out says nothing about its holder: once
// the API answers again the former leader has a precedence to come back in.
type Outage struct {
	after      time.Duration // how long answers must stay away
	precedence time.Duration

	answered time.Time // the last answer, or news by the watch
	failed   bool      // since then a fresh connection has brought none
	until    time.Time // when the precedence of the last outage ends
}

// NewOutage returns that of an API which has just answered. Answers must stay away
// for longer than after to count.
func NewOutage(after, precedence time.Duration, now time.Time) Outage {
	return Outage{after: after, precedence: precedence, answered: now}
}

// lasts reports whether the API is away now. A watch that says nothing is no
// sign of that, and nor is a connection that died.
func (o *Outage) lasts(now time.Time) bool {
	return o.failed && now.Sub(o.answered) >= o.after
}

// Answered notes that the API has answered.
func (o *Outage) Answered(now time.Time) {
	if o.lasts(now) {
		o.until = now.Add(o.precedence)
	}
	o.answered, o.failed = now, false
}

// Missed notes that a request on a fresh connection got no answer, or none yet. One
// that was sent before the last answer came says nothing about what is since.
func (o *Outage) Missed(sent time.Time) {
	if sent.After(o.answered) {
		o.failed = true
	}
}

// Over is when the precedence ends: at the earliest, as long as the API is away.
func (o *Outage) Over(now time.Time) time.Time {
	if o.lasts(now) {
		return now.Add(o.precedence)
	}
	return o.until
}
