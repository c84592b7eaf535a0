// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"slices"
	"time"

	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
)

// Freeing says when a lock is free to be taken, and why.
type Freeing struct {
	At    time.Time
	Cause status.Cause
	// Holder is who held it last, with what is known about that term.
	Holder  string
	Details locks.Details
	// Handover is what the holder said about who leads next when it gave the
	// lock up. It may only delay.
	Handover locks.Handover
	// Life is that holder's last sign of life. Late says that this candidate may have seen it
	// long after it came, or that it knows of no holder.
	Life time.Time
	Late bool
}

// RanOut reports whether the lock is free because a lease ran out, and not because its
// holder is known to need it no longer.
func (f Freeing) RanOut() bool {
	return f.Cause == status.CauseExpired || f.Cause == status.CauseDeleted || f.Cause == status.CauseCleared
}

// Free returns when the lock may be taken (S3), and false while nothing is known. The time
// may lie in the past.
func (o *Observer) Free() (Freeing, bool) {
	switch {
	case !o.known:
		return Freeing{}, false
	case !o.exists:
		return o.freeAbsent(), true
	case o.gap:
		return o.freeing(o.seen.Add(o.longerLease()), status.CauseDeleted), true
	case o.MayReclaim():
		return o.freeing(o.reclaimable(), status.CauseReclaimed), true
	case o.died():
		return o.freeing(o.seen, status.CauseDied), true
	case o.renewal.Holder == "":
		return o.freeEmpty(), true
	case !o.newest.Version.Exists():
		return o.freeing(o.seen.Add(o.durationOf(o.renewal)), status.CauseDeleted), true
	}
	at := o.seen.Add(o.durationOf(o.renewal))
	return o.freeing(at, status.CauseExpired), true
}

// reclaimable returns when this candidate may take back its own record. That is at once,
// with two exceptions: it is not known who had the lock before the record was created (S4);
// or the record came back, and somebody who had the lock since may still lead.
func (o *Observer) reclaimable() time.Time {
	if o.origin.number != 0 {
		return Latest(o.seen, o.origin.until)
	}
	if o.restored {
		return o.seen.Add(o.longerLease())
	}
	return o.seen
}

func (o *Observer) freeAbsent() Freeing {
	at := o.seen
	if o.self.WaitOnAbsent {
		at = at.Add(o.self.Lease)
	}
	return Freeing{At: at, Cause: status.CauseAbsent, Life: o.seen, Late: true}
}

// freeEmpty judges a record without a holder.
func (o *Observer) freeEmpty() Freeing {
	if o.gaveUp {
		f := o.freeing(o.seen, status.CauseReleased)
		f.Handover = o.handover()
		return f
	}
	return o.freeing(o.seen.Add(o.longerLease()), status.CauseCleared)
}

// givenUp reports whether a record that is about to follow renewal is empty because its
// holder gave the lock up, or because it never had one. After a term of a zonelect
// candidate it counts as given up only if the record notes that term's token as released: a
// paused client-go candidate can clear the lease of another (facts: release checks the
// holder it remembers). If that was the last term that this candidate saw, nothing else
// matters, because admission may change durations and times. Any other release, such as
// client-go's, is known by a new renewTime and the shortest lease. A manual edit that empties
// a record has neither. A restored backup is not a release, nor is an earlier record that
// somebody put back, or may have put back.
func (o *Observer) givenUp(s locks.Snapshot) bool {
	r := s.Record
	switch {
	case o.isEarlier(s):
		return false
	case o.exists && o.uid != s.Version.UID && (r.Details.Token == 0 || r.Details.Token != o.renewal.Details.Token):
		return false // on a new object, only the release of the term that was seen last is known not to be an earlier one
	case releasedBy(o.renewal, r):
		return !o.startOver
	case !released(r) && !clearedItsOwn(o.renewal, r):
		return false
	case !o.exists && r.RenewTime.IsZero():
		return !o.self.WaitOnAbsent // it says as little as no record
	case !o.exists:
		return r.LeaseDuration <= time.Second
	}
	return renewedBy(o.renewal, r) && r.LeaseDuration <= time.Second && !o.startOver
}

// renewedBy reports whether a record that follows another has a new renewTime.
func renewedBy(was, r locks.Record) bool {
	return !r.RenewTime.IsZero() && r.RenewTime.UnixMicro() != was.RenewTime.UnixMicro()
}

// handover is what a released record says about who leads next. It is empty if the record
// is not of the term that was given up last.
func (o *Observer) handover() locks.Handover {
	h := o.renewal.Details.Handover
	if h.To == "" || clearedItsOwn(o.prior, o.renewal) {
		return locks.Handover{}
	}
	h.Precedence = min(max(0, h.Precedence), o.self.Lease)
	return h
}

// released reports whether the last zonelect holder that an empty record knows gave it up,
// or the record never had one.
func released(r locks.Record) bool {
	d := r.Details
	return r.Holder == "" && (d.Holder == "" || d.Token != 0 && d.Released == d.Token)
}

// releasedBy reports whether the holder of a record gave up the very term that it is of by an empty
// record that follows. client-go's updates keep what an earlier term noted, and count transitions.
// Before its first renewal a record has no token.
func releasedBy(was, empty locks.Record) bool {
	d, before := empty.Details, was.Details
	return released(empty) && d.Token != 0 && (before.Token == 0 || before.Token == d.Token) &&
		was.Holder != "" && was.Holder == before.Holder && was.Holder == d.Holder && was.Transitions == empty.Transitions
}

// clearedItsOwn reports whether a candidate that is not zonelect's held the record before
// it was emptied, with the same traces of the last zonelect term in it. That candidate then
// gave up its own term, not a zonelect term.
func clearedItsOwn(was, empty locks.Record) bool {
	return was.Holder != "" && was.Holder != was.Details.Holder && empty.Holder == "" &&
		empty.Details.Token != 0 && empty.Details.Token == was.Details.Token && empty.Details.Holder == was.Details.Holder
}

func (o *Observer) freeing(at time.Time, cause status.Cause) Freeing {
	last := o.renewal
	if last.Holder == "" {
		last.Holder = cmp.Or(o.prior.Holder, last.Details.Holder)
	}
	f := Freeing{At: at, Cause: cause, Holder: last.Holder, Life: o.seen, Late: o.seenLate}
	if f.RanOut() || cause == status.CauseDied {
		f.Life, f.Late = o.lifeSeen, o.lifeSeenLate
	}
	if last.Details.Holder == last.Holder {
		f.Details = last.Details // believed only then (S11)
	}
	return f
}

// Longest is practically forever, and leaves room for sums.
const Longest = 100 * 365 * 24 * time.Hour

// durationOf is the lease that a record asks for. If a record names a holder, and not for how
// long, nobody can know when that holder stops to lead: time alone never frees the lock. A
// record without a holder and a duration asks for the candidate's own.
func (o *Observer) durationOf(r locks.Record) time.Duration {
	switch {
	case r.LeaseDuration > 0:
		return min(r.LeaseDuration, Longest)
	case r.Holder != "":
		return Longest
	}
	return o.self.Lease
}

// longerLease is the candidate's own lease, or that of the last record if it is longer. An
// emptied record has the shortest lease there is, so the record before it counts.
func (o *Observer) longerLease() time.Duration {
	lease := max(o.self.Lease, o.durationOf(o.renewal))
	if o.renewal.Holder == "" {
		lease = max(lease, o.durationOf(o.prior))
	}
	return lease
}

// Earliest returns the first of some moments.
func Earliest(moments ...time.Time) time.Time { return slices.MinFunc(moments, time.Time.Compare) }

// Latest returns the last of some moments.
func Latest(moments ...time.Time) time.Time { return slices.MaxFunc(moments, time.Time.Compare) }
