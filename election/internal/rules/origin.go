// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"time"

	"github.com/zonelect/zonelect/locks"
)

// origin says how this candidate came to create a record where there was none. A write that
// replaces a record fails if anybody else wrote meanwhile. A creation does not fail if
// another record was created and deleted meanwhile. So this candidate must know from the
// watch, which leaves nothing out, what came before the creation. Otherwise it waits,
// because nobody else can renew after a creation (S4). All other records have the zero
// origin.
type origin struct {
	number    uint64 // of the first version of the object that was seen
	before    uint64 // of the newest version known before; zero if none was
	first     bool   // this candidate had never seen a record
	contested bool   // somebody else had the lock in between
	seen      time.Time
	until     time.Time // from then on no earlier holder leads
}

// findOrigin notes the origin of a record that is about to be the newest. A candidate that
// never saw a record has nothing to go by, and does not ask, unless WaitOnAbsent is set. One that saw
// a record on a lock whose watches may skip events does not ask either: it has waited a lease by now.
func (o *Observer) findOrigin(s locks.Snapshot, now time.Time) {
	holder := s.Record.Holder
	switch {
	case !s.Version.Exists(), o.exists && o.uid == s.Version.UID && (holder == "" || holder == o.self.Identity):
		return
	case holder != o.self.Identity, !o.mayAsk():
		o.origin = origin{}
		return
	}
	free, known := o.Free()
	o.origin = origin{
		number:    s.Version.Number,
		before:    o.newest.Version.Number,
		first:     !o.exists,
		contested: !known || free.At.After(now) || o.Unproven(now),
		seen:      now,
		until:     now.Add(o.longerLease()),
	}
}

func (o *Observer) mayAsk() bool {
	return o.exists && !o.watchMaySkip || !o.exists && o.self.WaitOnAbsent
}

// PastUnknown is what a record says while its holder may not lead yet.
const PastUnknown = "the record was deleted, and somebody else may have had it and lead still: the watch tells, or a lease that runs out"

// Takeover is the record with which this candidate takes the lock, and the version that it replaces. If
// this candidate does not know who had the lock before, the record says so, and has others wait as
// long as it waits itself.
func (o *Observer) Takeover(me locks.Candidate, wall time.Time) (_ locks.Version, r locks.Record) {
	base, before := o.newest.Version, o.newest.Record
	if !base.Exists() { // what a deleted record said that is not about a holder stays
		before = locks.Record{Transitions: -1, Evacuated: o.renewal.Evacuated}
	}
	if r = acquisition(before, me, o.self.Lease, wall); !base.Exists() && o.mayAsk() {
		r.Details.Waits, r.LeaseDuration = PastUnknown, o.longerLease()
	}
	r.Details.Nonce = o.self.Nonce
	o.claims = [4]tenure{tenureOf(r), o.claims[0], o.claims[1], o.claims[2]}
	return base, r
}

// Unproven reports whether this candidate created its record where there was none, and
// others who had the lock before may still lead.
func (o *Observer) Unproven(now time.Time) bool { return now.Before(o.ProvenAt()) }

// ProvenAt returns from when on nobody can lead who had the lock before this candidate's
// own record. It returns the zero time if that is known already.
func (o *Observer) ProvenAt() time.Time { return o.origin.until }

// traceOrigin compares the origin with an event of a watch that leaves nothing out
// from the version after on.
func (o *Observer) traceOrigin(e locks.Event, after uint64) {
	from := &o.origin
	o.exact = e.Gapless
	switch s := e.Snapshot; {
	case !e.Gapless:
		if o.watchMaySkip = true; !from.first {
			*from = origin{}
		}
	case from.number == 0:
	case s.Version.Number < from.number:
		if !e.Bookmark && s.Record.Holder != "" && s.Record.Holder != o.self.Identity {
			from.contested, from.until = true, Latest(from.until, from.seen.Add(o.durationOf(s.Record)))
		}
	case !from.contested && after <= from.before:
		*from = origin{}
	}
}
