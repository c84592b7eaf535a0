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
	// Life is the last sign of life of that holder.
	Life time.Time
}

// RanOut reports whether the lock is free since a lease ran out, and not since
// its holder is known to have no more use of it.
func (f Freeing) RanOut() bool {
	return f.Cause == status.CauseExpired || f.Cause == status.CauseDeleted || f.Cause == status.CauseCleared
}

// Free returns when the lock may be taken (S3), and false while nothing is
// known. It may lie in the past.
func (o *Observer) Free() (Freeing, bool) {
	switch {
	case !o.known:
		return Freeing{}, false
	case !o.exists:
		return o.freeAbsent(), true
	case o.gap:
		return o.freeing(o.seen.Add(o.LongerLease()), status.CauseDeleted), true
	case o.MayReclaim():
		return o.freeing(o.reclaimable(), status.CauseReclaimed), true
	case o.died():
		return o.freeing(o.deadAt, status.CauseDied), true
	case o.renewal.Holder == "":
		return o.freeEmpty(), true
	case !o.newest.Version.Exists():
		return o.freeing(o.seen.Add(o.durationOf(o.renewal)), status.CauseDeleted), true
	}
	at := o.seen.Add(o.durationOf(o.renewal))
	if !o.written.IsZero() {
		at = Earliest(at, o.written.Add(o.durationOf(o.renewal)+min(o.self.MaxClockSkew, Longest)+time.Second))
	}
	return o.freeing(at, status.CauseExpired), true
}

// oldest is how long ago a record may claim to be from. What claims more was
// written by a clock that was never set, or is no time at all.
const oldest = 365 * 24 * time.Hour

// byWallClock is when the first record that a candidate sees was written by the
// times in it, for MaxClockSkew: the one exception of S2. The zero time says
// that they do not count. The later of the two times counts, as a lock of two
// records has one of each. A lease that is counted from there gets one second
// more, for records in whole seconds.
func (o *Observer) byWallClock(s locks.Snapshot, now time.Time) time.Time {
	written := Latest(s.Record.AcquireTime.Round(0), s.Record.RenewTime.Round(0))
	age := now.Round(0).Sub(written)
	if o.self.MaxClockSkew <= 0 || s.Partial || s.Record.RenewTime.IsZero() || age < 0 || age > oldest {
		return time.Time{}
	}
	return now.Add(-age)
}

// reclaimable is when a record of the candidate's own may be taken back: at
// once, unless it is not known who had the lock before it was made (S4), or it is
// what is left of one that another had just before, who does not know that the
// rest is gone.
func (o *Observer) reclaimable() time.Time {
	if o.origin.number != 0 {
		return Latest(o.seen, o.origin.until)
	}
	if !o.newest.Partial || o.prior.Holder == "" || o.prior.Holder == o.self.Identity {
		return o.seen
	}
	return Latest(o.seen, o.priorSeen.Add(o.durationOf(o.prior)))
}

func (o *Observer) freeAbsent() Freeing {
	at := o.seen
	if o.self.WaitOnAbsent {
		at = at.Add(o.self.Lease)
	}
	return Freeing{At: at, Cause: status.CauseAbsent, Life: o.seen}
}

// freeEmpty judges a record without holder.
func (o *Observer) freeEmpty() Freeing {
	if o.gaveUp {
		f := o.freeing(o.seen, status.CauseReleased)
		f.Handover = o.handover()
		return f
	}
	return o.freeing(o.seen.Add(o.LongerLease()), status.CauseCleared)
}

// givenUp reports whether a record that is about to follow renewal is empty since
// its holder gave the lock up, or never had a holder. After a term of ours it
// counts as given up only if that term's token is noted as released: a client-go
// candidate that was paused can clear the lease of another (facts: release
// checks the holder it remembers). Each release, client-go's too, writes a new
// renewTime and the shortest lease; a hand that empties a record does not, nor
// is a backup that was restored a release.
func (o *Observer) givenUp(r locks.Record) bool {
	switch {
	case !released(r) && !clearedItsOwn(o.renewal, r):
		return false
	case !o.exists:
		return r.RenewTime.IsZero() || r.LeaseDuration <= time.Second
	}
	anew := !r.RenewTime.IsZero() && r.RenewTime.UnixMicro() != o.renewal.RenewTime.UnixMicro()
	return anew && r.LeaseDuration <= time.Second && !o.startOver
}

// handover is what a released record says about who leads next; nothing where
// it is not of the term that was given up last.
func (o *Observer) handover() locks.Handover {
	h := o.renewal.Details.Handover
	if h.To == "" || clearedItsOwn(o.prior, o.renewal) {
		return locks.Handover{}
	}
	h.Precedence = min(max(0, h.Precedence), o.self.Lease)
	return h
}

// released reports whether an empty record was given up by the last holder of
// ours that it knows, or never had one.
func released(r locks.Record) bool {
	d := r.Details
	return r.Holder == "" && (d.Holder == "" || d.Token != 0 && d.Released == d.Token)
}

// clearedItsOwn reports whether the record before an empty one was held by a
// candidate that is not ours, with the same traces of our last term standing
// in it: then that candidate gave up its own term, not one of ours.
func clearedItsOwn(was, empty locks.Record) bool {
	return was.Holder != "" && was.Holder != was.Details.Holder && empty.Holder == "" &&
		empty.Details.Token != 0 && empty.Details.Token == was.Details.Token && empty.Details.Holder == was.Details.Holder
}

func (o *Observer) freeing(at time.Time, cause status.Cause) Freeing {
	last := o.renewal
	if last.Holder == "" {
		last.Holder = cmp.Or(o.prior.Holder, last.Details.Holder)
	}
	f := Freeing{At: at, Cause: cause, Holder: last.Holder, Life: o.seen}
	if f.RanOut() || cause == status.CauseDied {
		f.Life = o.lifeSeen
	}
	if last.Details.Holder == last.Holder {
		f.Details = last.Details // believed only then (S11)
	}
	return f
}

// Longest is as good as for ever, and leaves room for sums.
const Longest = 100 * 365 * 24 * time.Hour

// durationOf is the lease that a record asks for: the candidate's own where
// there is none, or nonsense.
func (o *Observer) durationOf(r locks.Record) time.Duration {
	if r.LeaseDuration <= 0 {
		return o.self.Lease
	}
	return min(r.LeaseDuration, Longest)
}

// LongerLease is the candidate's own lease, or that of the last record if it is
// longer. One that was emptied has the least there is: that before it counts.
func (o *Observer) LongerLease() time.Duration {
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
