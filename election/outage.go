// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import "time"

// outage is what a candidate makes of the API being away. Nobody could renew
// meanwhile, so that a lease which ran out says nothing about its holder: once
// the API answers again the former leader has a precedence to come back in.
type outage struct {
	after      time.Duration // how long answers must stay away
	precedence time.Duration

	answered time.Time // the last answer, or news by the watch
	failed   bool      // since then a fresh connection has brought none
	until    time.Time // when the precedence of the last outage ends
}

// lasts reports whether the API is away now. A watch that says nothing is no
// sign of that, and nor is a connection that died.
func (o *outage) lasts(now time.Time) bool {
	return o.failed && now.Sub(o.answered) >= o.after
}

// hear notes that the API has answered.
func (o *outage) hear(now time.Time) {
	if o.lasts(now) {
		o.until = now.Add(o.precedence)
	}
	o.answered, o.failed = now, false
}

// take takes in an answer to a request, or that there was none.
func (o *outage) take(a answer, now time.Time) {
	if a.err == nil || a.conflict() {
		o.hear(now)
	} else {
		o.miss(a.request, a.sent)
	}
}

// miss notes that a request got no answer, or none yet. One that was sent before
// the last answer came says nothing about what is since.
func (o *outage) miss(r request, sent moment) {
	if r.fresh() && sent.awake.After(o.answered) {
		o.failed = true
	}
}

// over is when the precedence ends: at the earliest, as long as the API is away.
func (o *outage) over(now time.Time) time.Time {
	if o.lasts(now) {
		return now.Add(o.precedence)
	}
	return o.until
}

// ranOut reports whether the lock is free since a lease ran out, and not since
// its holder is known to have no more use of it.
func (c Cause) ranOut() bool {
	return c == CauseExpired || c == CauseDeleted || c == CauseCleared
}
