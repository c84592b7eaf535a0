// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"math"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/leasewatch"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// Why a term that a heartbeat kept is over.
const (
	voidWithdrawn = "the heartbeat of this process was withdrawn"
	voidGone      = "the heartbeat of this process was deleted or replaced"
)

// state is the opaque version of a snapshot: all that a write needs.
type state struct {
	lease *coordinationv1.Lease // the lock's
	attachment
	heart *coordinationv1.Lease // the Lease of the heartbeat that the lock names; nil if there is none
	// mayBeat reports that a heartbeat of the epoch may still come, unless the epoch is
	// withdrawn at that version of its Lease first.
	mayBeat bool
}

// LockLease is the lock's own Lease, for package record.
func (s *state) LockLease() *coordinationv1.Lease { return s.lease }

// number is the version of the lock's own Lease.
func (s *state) number() uint64 { return record.Number(s.lease.ResourceVersion) }

// stateOf returns the opaque version of a snapshot of a lock; nil if it does not exist.
func stateOf(v locks.Version) *state {
	s, _ := v.Opaque.(*state)
	return s
}

// unseen is the version of a heartbeat's Lease that was not seen yet at the moment of the
// lock's own write. Another snapshot follows at once.
const unseen = math.MaxUint64

// composed is a snapshot of a lock.
type composed struct {
	locks.Snapshot
	// void is why the term is over although the lock's Lease names its holder: the heartbeat that
	// renewed it is withdrawn or gone. It is empty if the term is not over.
	void string
}

// compose returns the record that a lock's Lease and the Lease of its heartbeat make
// together. Both must be of one moment: of one list, or of one watch at one event. heart is
// not used if no heartbeat keeps the lock.
//
// The record's renewTime changes with each heartbeat of the epoch that came after the holder's
// own write (L2). Somebody who has withdrawn the epoch has noted the last of them, so that it
// remains the last (L3). If it is not known which was the last, the renewTime is one that
// nobody has seen, and every wait starts again (L4), once: neither the heartbeats of another
// epoch nor the withdrawal of this one start it again. Even then the epoch must be withdrawn, as
// long as its Lease exists: the holder may not have seen what a hand did to that, and the hand
// may put it back.
//
// If the heartbeat's Lease notes that the lock was released at this very version, the record
// is that release (L8).
func compose(lease *coordinationv1.Lease, heart leasewatch.State) composed {
	s := composed{Snapshot: record.Snapshot(lease)}
	if lease == nil {
		return s
	}
	s.Barred = record.StageOf(s.Version).Bars(record.LegacyOf(s.Version))
	st := &state{lease: lease}
	s.Version.Opaque = st
	var attached bool
	if st.attachment, attached = attachmentOf(lease); !attached || s.Record.Holder == "" {
		s.Snapshot = unkept(s.Snapshot)
		if attached { // somebody emptied the record: a holder that releases it removes the annotation
			s.Record.LeaseDuration = max(s.Record.LeaseDuration, st.attachment.lease)
		}
		st.attachment = attachment{}
		return s
	}
	own := s.Version.Number
	if heart.Number == unseen {
		st.mayBeat, s.Kept = true, true
		s.Record.LeaseDuration, s.Version.Token = st.attachment.lease, own
		return s
	}
	s.Record.LeaseDuration, s.Kept = st.attachment.lease, true
	s.Version.Number, s.Version.Token = max(own, heart.Number), own
	var note withdrawal
	var noted bool
	if heart.Lease != nil && heart.Lease.UID == st.uid {
		st.heart = heart.Lease
		note, noted = withdrawalOf(heart.Lease)
	}
	if st.heart != nil {
		if at, is := releasedAt(st.heart, st.epoch, lease.Name, own); is {
			s.Record, s.Kept = released(s.Record, own, at), false
			return s
		}
	}
	if noted = noted && note.epoch == st.epoch; !noted {
		note = withdrawal{}
	}
	st.mayBeat = st.heart != nil && !noted
	switch {
	case st.mayBeat && epochOf(heart.Lease) == st.epoch:
		s.Record.RenewTime = laterOf(s.Record.RenewTime, own, record.Read(heart.Lease).RenewTime, heart.Number)
		return s
	case noted:
		s.void = voidWithdrawn
	default:
		s.void = voidGone
	}
	s.Record.RenewTime = lastRenewal(s.Record.RenewTime, own, note)
	return s
}

// unkept returns the snapshot of a Lease that no heartbeat keeps. If somebody removed or spoiled
// the annotation of one that did, the Lease no longer says how long its holder leads.
func unkept(s locks.Snapshot) locks.Snapshot {
	if s.Record.LeaseDuration == never {
		s.Record.LeaseDuration = 0
	}
	return s
}

// laterOf returns the renewTime of a lock whose Lease says written at the version own, with the
// time and the version of a heartbeat. A heartbeat that came after the lock's own write counts.
// Otherwise the later time does: a write of the holder in its term is later than the heartbeats
// before it (L1).
// All other writes, such as the request of a handover, renew nothing and hide no heartbeat (L2).
func laterOf(written time.Time, own uint64, beat time.Time, number uint64) time.Time {
	if number > own || !written.IsZero() && beat.After(written) {
		return beat
	}
	return written
}

// lastRenewal returns the renewTime of a lock whose epoch is over, with the note of its
// withdrawal, if there is one. written is what the version own of the lock's Lease says. It
// changes no more, whatever becomes of the heartbeat's Lease, which another epoch may renew: a
// record without a renewTime would be another at each of those renewals.
func lastRenewal(written time.Time, own uint64, note withdrawal) time.Time {
	known := !note.renew.IsZero()
	if known {
		written = laterOf(written, own, note.renew, note.last)
	}
	switch {
	case written.IsZero():
		return time.UnixMicro(int64(own))
	case !known:
		return written.Add(time.Microsecond)
	}
	return written
}
