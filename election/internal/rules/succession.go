// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"time"

	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
)

// succession is what a candidate knows about the term that was seen to begin last. Nothing
// is decided by it: it is for telemetry.
type succession struct {
	tenure Tenure       // the last that had a holder
	cause  status.Cause // how the lock came to be free for it; empty if that is unknown
	news   bool         // nobody has asked for it yet
}

// noteSuccession notes that a record is about to follow renewal, if it begins a term. The
// first record of all, and one that a restored backup brings back, begin none.
func (o *Observer) noteSuccession(r locks.Record, now time.Time) {
	was, tenure := o.succession.tenure, TenureOf(r)
	if r.Holder == "" || tenure == was {
		return
	}
	o.succession = succession{tenure: tenure}
	if o.known && !o.startOver {
		o.succession.cause, o.succession.news = o.freedBy(r, now), true
	}
}

// freedBy returns how the lock came to be free for whoever holds it by r. If that is too
// early for the lease to have run out, this candidate has missed something: a release, or
// the proof of a death.
func (o *Observer) freedBy(r locks.Record, now time.Time) status.Cause {
	free, _ := o.Free()
	if free.Cause == status.CauseReclaimed && r.Holder != o.self.Identity {
		free = o.freeing(o.seen.Add(o.durationOf(o.renewal)), status.CauseExpired)
	}
	if free.Cause == status.CauseExpired && now.Before(free.At.Add(-o.self.Lease/10)) {
		return ""
	}
	return free.Cause
}

// Succession returns how the lock came to be free for a term that was seen to begin since
// the last call; empty if that is unknown. It returns false if none was.
func (o *Observer) Succession() (cause status.Cause, seen bool) {
	cause, seen = o.succession.cause, o.succession.news
	o.succession.news = false
	return cause, seen
}
