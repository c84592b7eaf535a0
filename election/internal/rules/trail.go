// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import "github.com/zonelect/zonelect/locks"

// trail is what a watch that leaves nothing out has shown since this candidate's own records. An
// empty record may say nothing of its last holder, because whoever emptied it also removed the
// annotations. The trail then tells this candidate that it was the last one. All fields are
// versions, and zero if there is none.
type trail struct {
	own   uint64 // the newest that this candidate holds
	other uint64 // the newest that somebody else holds, or whose holder gave it up
	after uint64 // the watch leaves nothing out from this one on
	end   uint64 // the newest that the watch has shown
}

// noteOwn notes that this candidate holds the newest record. A record that a restored backup
// brought back does not count, nor one before which somebody unknown may have had the lock.
func (o *Observer) noteOwn() {
	if o.newest.Version.Exists() && o.Holds() && o.origin.number == 0 {
		o.trail.own = max(o.trail.own, o.newest.Version.Number)
	}
}

// followTrail notes an event of a watch that leaves nothing out from the version after on.
func (o *Observer) followTrail(e locks.Event, after uint64) {
	r, number := e.Snapshot.Record, e.Snapshot.Version.Number
	switch {
	case !e.Gapless:
		o.trail = trail{}
	case e.Bookmark:
	default:
		if r.Holder != "" && !o.holds(r) || r.Holder == "" && r.Details.Released != 0 {
			o.trail.other = max(o.trail.other, number)
		}
		o.trail.after, o.trail.end = after, number
	}
}

// wasMine reports whether the newest record, which has no holder, was emptied by somebody while
// this candidate held the lock, and nobody else had the lock since.
func (o *Observer) wasMine() bool {
	t, r := o.trail, o.newest.Record
	return t.own > t.other && t.after != 0 && t.after <= t.own && t.end == o.newest.Version.Number &&
		(r.Transitions == 0 || r.Transitions == o.term.transitions) &&
		(r.Details.Holder == "" || r.Details.Holder == o.self.Identity)
}
