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

// twinState is what stands in both locks of a [Lock]. It is pure and not changed
// once it is passed on, as the opaque version of a snapshot.
type twinState struct {
	governing, legacy locks.Snapshot
	governingOnly     bool // the governing lock counts alone; of legacy nothing is known
	at                twinPlace
}

// exists reports whether there is a lock. A legacy object without a record is
// none: it may be there for other reasons, and stays when the phase is clean.
func (s *twinState) exists() bool {
	return s.governing.Version.Exists() || s.legacy.Version.Exists() && s.legacy.Record != (locks.Record{})
}

// newest is the larger version number.
func (s *twinState) newest() uint64 {
	return max(s.governing.Version.Number, s.legacy.Version.Number)
}

// snapshot is the state as one, under a number.
func (s *twinState) snapshot(number uint64) locks.Snapshot {
	if !s.exists() {
		return locks.Snapshot{Version: locks.Version{Number: number}}
	}
	record, partial := s.record()
	record.Evacuated = s.governing.Record.Evacuated // it stands there alone
	return locks.Snapshot{
		Version: locks.Version{
			Number: number,
			UID:    cmp.Or(s.governing.Version.UID, s.legacy.Version.UID),
			Opaque: s,
		},
		Record:  record,
		Partial: partial || s.governing.Partial,
	}
}

// record is the one record that both stand for. See [Lock]. It changes whenever
// a side does that somebody may lead by.
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
		return s.lengthened(l), true
	}
	return s.disputed(), false
}

// lengthened is r with the longer lease. Where a hand emptied the other side, its
// holder's lease still stands there, and that holder may go on. One that gave it up
// left a second.
func (s *twinState) lengthened(r locks.Record) locks.Record {
	if r.LeaseDuration > 0 { // else the elector takes its own, or the one before
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

// unreleased is an empty record that the elector will not take for given up:
// who held the other lock before it was deleted may go on.
func unreleased(r locks.Record) locks.Record {
	r.Details = locks.Details{Holder: UnknownHolder}
	return r
}

// agreed is the record where both have the same holder, or none. The one that was
// emptied last says whether it was given up. Where a hand changed the duration of
// one of ours, the longer one counts, and the holder mends it.
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

// disputed is the record where both have a holder, and not the same.
func (s *twinState) disputed() locks.Record {
	g, l := s.governing.Record, s.legacy.Record
	r := locks.Record{
		Holder:      fmt.Sprintf("%s (legacy: %s, governing: %s)", UnknownHolder, l.Holder, g.Holder),
		Transitions: max(g.Transitions, l.Transitions),
	}
	return s.merged(r)
}

// merged is r with the longer lease, and with times that differ after each
// change of either side.
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

// isTorn reports whether one side was written as by a [Lock] that has not written
// the other yet.
func (s *twinState) isTorn() bool {
	if s.governingOnly {
		return false
	}
	newer, _ := s.order()
	whole := s.governing.Version.Exists() && s.legacy.Version.Exists() && sameRenewal(s.governing.Record, s.legacy.Record)
	return isOurs(newer) && !whole
}

// isOurs reports whether a record was written by a candidate of this library,
// when it took, renewed or released the lock. Legacy electors leave the details
// of others standing, and write none.
func isOurs(r locks.Record) bool {
	d := r.Details
	if r.Holder == "" {
		return d.Token != 0 && d.Released == d.Token
	}
	return d.Holder == r.Holder
}

// isReleased reports whether an empty record was given up by the last holder
// of ours that it knows, or never had one.
func isReleased(r locks.Record) bool {
	return r.Details.Holder == "" || r.Details.Token != 0 && r.Details.Released == r.Details.Token
}

// sameRenewal reports whether both sides hold the same renewal. What a legacy
// elector wrote has whole seconds.
func sameRenewal(g, l locks.Record) bool {
	if g.Holder != l.Holder {
		return false
	}
	if l.RenewTime.UnixMicro()%1e6 == 0 {
		return g.RenewTime.Unix() == l.RenewTime.Unix()
	}
	return g.RenewTime.UnixMicro() == l.RenewTime.UnixMicro()
}

// twinPlace says where in the history of both locks a state is.
type twinPlace struct{ governing, legacy twinMark }

// twinMark is the number of a side's newest version or deletion. That of a side
// which a read found absent is a number that it was absent at. That of one which
// was not looked at is the newest known.
type twinMark struct {
	number uint64
	absent bool
}

func markOf(v locks.Version) twinMark {
	return twinMark{number: v.Number, absent: !v.Exists()}
}

// stillAbsent is m, or a later mark where the side is as absent as in m.
func (m twinMark) stillAbsent(later twinMark) twinMark {
	if m.absent && later.absent && later.number > m.number {
		return later
	}
	return m
}

// twinNumbers gives out version numbers, so that within a process each state
// has its own and a later one has a larger. That is the state's newest version,
// unless this is taken: two watches tell of two sides in no certain order, and
// a read does not say when what it misses was deleted.
type twinNumbers struct {
	mu      sync.Mutex
	place   twinPlace // of the newest state
	number  uint64    // and its number
	changes int
}

func (n *twinNumbers) generation() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changes
}

// read numbers a state that was read, and notes its place in it. It returns
// false if newer states were seen since generation. What is older all the same
// means that the history went back: that is believed.
func (n *twinNumbers) read(s *twinState, generation int) (uint64, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s.at = twinPlace{n.markRead(s, s.governing, n.place.governing), n.markRead(s, s.legacy, n.place.legacy)}
	n.overlook(s)
	if !s.exists() {
		return 0, true // nothing was read, so nothing is known of when
	}
	if s.at.notBefore(n.place) {
		return n.next(s), true
	}
	if n.changes != generation {
		return 0, false
	}
	n.set(s.at, s.newest())
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

// overlook takes the legacy side for what it was last seen to be, where it does
// not matter and was not looked at.
func (n *twinNumbers) overlook(s *twinState) {
	if s.governingOnly {
		s.at.legacy = n.place.legacy
	}
}

// watched numbers a state that a watch put together; false means that a newer
// one is known.
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

// wrote numbers what was written; false means that the legacy side was written
// by somebody else since. Where the governing one was, this is old news: its
// number is that of the database, and less than that of what is known.
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
		n.set(s.at, max(s.newest(), n.number+1))
	}
	return n.number
}

func (n *twinNumbers) set(place twinPlace, number uint64) {
	n.place, n.number = place, number
	n.changes++
}

// notBefore reports whether neither side of p is older than that of o.
func (p twinPlace) notBefore(o twinPlace) bool {
	return p.governing.number >= o.governing.number && p.legacy.number >= o.legacy.number
}
