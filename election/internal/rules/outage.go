// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import "time"

// Outage tracks whether the API is away. Nobody can renew during an outage, so a lease that
// ran out says nothing about its holder. Once the API answers again, the former leader has
// a precedence in which to come back.
type Outage struct {
	after      time.Duration // how long answers must stay away
	precedence time.Duration

	answered time.Time // the last answer, or news by the watch
	failed   bool      // a request on a fresh connection has got no answer since then
	until    time.Time // when the precedence of the last outage ends
}

// NewOutage returns the Outage of an API that has just answered. An outage counts once no
// answer has come for the duration after.
func NewOutage(after, precedence time.Duration, now time.Time) Outage {
	return Outage{after: after, precedence: precedence, answered: now}
}

// lasts reports whether the API is away now. Neither a silent watch nor a dead connection
// is a sign of that.
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

// Missed notes that a request on a fresh connection got no answer, or none yet. A request
// that was sent before the last answer came says nothing about the time since.
func (o *Outage) Missed(sent time.Time) {
	if sent.After(o.answered) {
		o.failed = true
	}
}

// Over is when the precedence ends. While the API is away, that is the earliest time
// possible.
func (o *Outage) Over(now time.Time) time.Time {
	if o.lasts(now) {
		return now.Add(o.precedence)
	}
	return o.until
}
