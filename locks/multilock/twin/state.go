// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package twin

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"github.com/zonelect/zonelect/locks"
)

// twinState is the content of both locks of a [Lock]. It is pure, and does not change
// once it is passed on as the opaque version of a snapshot.
type twinState struct {
	governing, legacy locks.Snapshot
	governingOnly     bool // the governing lock counts alone; nothing is known of legacy
	at                twinPlace
}

// exists reports whether there is a lock. A legacy object without a record is not a lock:
// it may exist for other reasons, and stays when the phase is clean.
func (s *twinState) exists() bool {
	return s.governing.Version.Exists() || s.legacy.Version.Exists() && s.legacy.Record != (locks.Record{})
}

// newest is the larger version number.
func (s *twinState) newest() uint64 {
	return max(s.governing.Version.Number, s.legacy.Version.Number)
}

// snapshot returns the state as one snapshot with that number.
func (s *twinState) snapshot(number uint64) locks.Snapshot {
	if !s.exists() {
		return locks.Snapshot{Version: locks.Version{Number: number}}
	}
	record, partial := s.record()
	only := s.governing.Record // the legacy one has neither
	record.Evacuated, record.Previous = only.Evacuated, only.Previous
	return locks.Snapshot{
		Version: locks.Version{
			Number: number,
			UID:    cmp.Or(s.governing.Version.UID, s.legacy.Version.UID),
			Opaque: s,
		},
		Record:  record,
		Partial: partial || s.governing.Partial,
		Barred:  s.governing.Barred,
	}
}

// record returns the one record that both locks amount to. See [Lock]. It changes
// whenever a side changes by which somebody may lead.
func (s *twinState) record() (r locks.Record, partial bool) {
	g, l := s.governing.Record, s.legacy.Record
	switch {
	case s.governingOnly:
		return g, false
	case !s.governing.Version.Exists() && isReleasedByOurs(l):
		return unreleased(l), false
	case !s.governing.Version.Exists():
		return l, l.Holder != ""
	case !s.legacy.Version.Exists() && g.Holder == "":
		return unreleased(g), false
	case !s.legacy.Version.Exists():
		return g, true
	case g.Holder == l.Holder:
		return s.agreed()
	case l.Holder == "":
		return s.lengthened(s.halfReleased(g)), true
	case g.Holder == "":
		if newer, _ := s.order(); newer.Holder == "" && g.LeaseDuration > time.Second { // a release leaves one second
			l.RenewTime = g.RenewTime // a person said for how long the holder before l may go on, and when (S3)
		}
		return s.lengthened(l), true
	}
	return s.disputed(), false
}

// lengthened returns r with the longer lease. If somebody emptied the other side by hand,
// its holder's lease is still there, and that holder may go on leading. A holder that
// released it left one second.
func (s *twinState) lengthened(r locks.Record) locks.Record {
	if r.LeaseDuration > 0 { // else nobody knows how long its holder leads
		r.LeaseDuration = max(s.governing.Record.LeaseDuration, s.legacy.Record.LeaseDuration)
	}
	return r
}

// halfReleased is g, marked as released if a release of its own term got no further than
// the legacy record, and nobody took that since. Its holder may finish the release.
func (s *twinState) halfReleased(g locks.Record) locks.Record {
	l := s.legacy.Record
	if isReleasedByOurs(l) && l.LeaseDuration <= time.Second && g.Details.Holder == g.Holder && g.Details.Token == l.Details.Token {
		g.Details.Released = g.Details.Token
	}
	return g
}

// isReleasedByOurs reports whether a candidate of this library gave a record up:
// then there was a governing one.
func isReleasedByOurs(r locks.Record) bool { return r.Holder == "" && isOurs(r) }

// unreleased returns an empty record that the elector will not take for a released one:
// the holder of the other lock before its deletion may go on leading.
func unreleased(r locks.Record) locks.Record {
	r.Details = locks.Details{Holder: UnknownHolder}
	return r
}

// agreed returns the record if both have the same holder, or none. The one that was
// emptied last says whether it was released. If somebody changed the duration of one of
// our records by hand, the longer duration counts, and the holder repairs it.
func (s *twinState) agreed() (r locks.Record, partial bool) {
	g, l := s.governing.Record, s.legacy.Record
	switch {
	case g.Holder == "" && !isReleased(l):
		return l, false
	case g.Holder == "":
		newer, _ := s.order()
		return newer, false
	case isOurs(l) && sameRenewal(g, l):
		partial = g.LeaseDuration != l.LeaseDuration
		g.LeaseDuration = max(g.LeaseDuration, l.LeaseDuration)
		return g, partial
	case isOurs(l), sameRenewal(g, l):
		return g, false
	}
	return s.merged(g), false
}

// disputed returns the record if the two have different holders.
func (s *twinState) disputed() locks.Record {
	g, l := s.governing.Record, s.legacy.Record
	r := locks.Record{
		Holder:      fmt.Sprintf("%s (legacy: %s, governing: %s)", UnknownHolder, l.Holder, g.Holder),
		Transitions: max(g.Transitions, l.Transitions),
	}
	r = s.merged(r)
	if min(g.LeaseDuration, l.LeaseDuration) <= 0 {
		r.LeaseDuration = 0 // nobody knows how long the holder of that side leads
	}
	return r
}

// merged returns r with the longer lease, and with times that differ after each change of
// either side.
func (s *twinState) merged(r locks.Record) locks.Record {
	newer, older := s.order()
	r.LeaseDuration = max(newer.LeaseDuration, older.LeaseDuration)
	r.RenewTime, r.AcquireTime = newer.RenewTime, older.RenewTime
	return r
}

// order returns the record that was written last, and the other.
func (s *twinState) order() (newer, older locks.Record) {
	if s.legacy.Version.Number > s.governing.Version.Number {
		return s.legacy.Record, s.governing.Record
	}
	return s.governing.Record, s.legacy.Record
}

// isTorn reports whether one side looks written by a [Lock] that has not written the
// other yet.
func (s *twinState) isTorn() bool {
	if s.governingOnly {
		return false
	}
	newer, _ := s.order()
	whole := s.governing.Version.Exists() && s.legacy.Version.Exists() && sameRenewal(s.governing.Record, s.legacy.Record)
	return isOurs(newer) && !whole
}

// isOurs reports whether a candidate of this library wrote a record to take, renew or
// release the lock. Legacy electors leave the details of others in place, and write none.
func isOurs(r locks.Record) bool {
	d := r.Details
	if r.Holder == "" {
		return d.Token != 0 && d.Released == d.Token
	}
	return d.Holder == r.Holder
}

// isReleased reports whether the last candidate of this library named in an empty record
// released it, or no such candidate ever held it.
func isReleased(r locks.Record) bool {
	return r.Details.Holder == "" || r.Details.Token != 0 && r.Details.Released == r.Details.Token
}

// sameRenewal reports whether both sides hold the same renewal. The times of a legacy
// elector are in whole seconds.
func sameRenewal(g, l locks.Record) bool {
	if g.Holder != l.Holder {
		return false
	}
	if l.RenewTime.UnixMicro()%1e6 == 0 {
		return g.RenewTime.Unix() == l.RenewTime.Unix()
	}
	return g.RenewTime.UnixMicro() == l.RenewTime.UnixMicro()
}

// twinPlace is the position of a state in the history of both locks.
type twinPlace struct{ governing, legacy twinMark }

// twinMark is the number of a side's newest version or deletion. If a read found the side
// absent, it is a number at which the side was absent. If the side was not read, it is
// the newest known.
type twinMark struct {
	number uint64
	absent bool
}

func markOf(v locks.Version) twinMark {
	return twinMark{number: v.Number, absent: !v.Exists()}
}

// stillAbsent returns m, or later if the side is absent in both and later is newer.
func (m twinMark) stillAbsent(later twinMark) twinMark {
	if m.absent && later.absent && later.number > m.number {
		return later
	}
	return m
}

// twinNumbers assigns version numbers, so that within a process each state has its own
// number and a later state a larger one. It is the state's newest version, unless that is
// taken: two watches report the two sides in no fixed order, and a read does not say when
// an absent object was deleted.
type twinNumbers struct {
	mu     sync.Mutex
	place  twinPlace // of the newest state
	number uint64    // and its number
}

func (n *twinNumbers) newest() twinPlace {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.place
}

// read numbers a state that was read, and records the state's place in it. It returns
// false if the state is older than the newest known, and that was not known yet before the
// read. If it was, the history went back, and read accepts that.
func (n *twinNumbers) read(s *twinState, before twinPlace) (uint64, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s.at = twinPlace{n.markRead(s, s.governing, n.place.governing), n.markRead(s, s.legacy, n.place.legacy)}
	n.overlook(s)
	if !s.exists() {
		return 0, true // nothing was found, so there is no number
	}
	if s.at.notBefore(n.place) {
		return n.next(s), true
	}
	if n.place != before {
		return 0, false
	}
	n.place, n.number = s.at, s.newest()
	return n.number, true
}

func (n *twinNumbers) markRead(s *twinState, side locks.Snapshot, known twinMark) twinMark {
	switch {
	case side.Version.Exists():
		return markOf(side.Version)
	case known.absent:
		return known
	}
	return twinMark{number: max(n.number, s.newest()), absent: true}
}

// overlook gives the legacy side its last known place if that side does not matter and
// was not read.
func (n *twinNumbers) overlook(s *twinState) {
	if s.governingOnly {
		s.at.legacy = n.place.legacy
	}
}

// watched numbers a state that a watch assembled; false means that a newer one is known.
func (n *twinNumbers) watched(s *twinState) (uint64, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s.at.governing, s.at.legacy = s.at.governing.stillAbsent(n.place.governing), s.at.legacy.stillAbsent(n.place.legacy)
	n.overlook(s)
	if !s.at.notBefore(n.place) {
		return 0, false
	}
	return n.next(s), true
}

// wrote numbers a state that was written; false means that somebody else has written the
// legacy side since. If only the governing side is newer, the state is already outdated:
// its number is that of the database, and smaller than the newest known.
func (n *twinNumbers) wrote(s *twinState) (uint64, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s.at = twinPlace{markOf(s.governing.Version), markOf(s.legacy.Version)}
	n.overlook(s)
	switch {
	case s.at.notBefore(n.place):
		return n.next(s), true
	case s.at.legacy.number < n.place.legacy.number:
		return 0, false
	}
	return s.newest(), true
}

// next returns the number of a state that is not older than the newest known.
// The caller holds mu.
func (n *twinNumbers) next(s *twinState) uint64 {
	if s.at != n.place {
		n.place, n.number = s.at, max(s.newest(), n.number+1)
	}
	return n.number
}

// notBefore reports whether neither side of p is older than that of o.
func (p twinPlace) notBefore(o twinPlace) bool {
	return p.governing.number >= o.governing.number && p.legacy.number >= o.legacy.number
}
