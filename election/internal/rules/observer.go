// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rules holds the rules by which an elector decides: when a lock may be taken, what
// a record must say, and who goes first. It is pure: it does no I/O, reads no clock and
// gets the time as an argument.
package rules

import (
	"fmt"
	"slices"
	"time"

	"github.com/zonelect/zonelect/locks"
)

// Self is what the rules know about the candidate that asks them.
type Self struct {
	Identity string
	// Nonce tells the records of this process from those of another process that
	// has the same identity.
	Nonce        string
	Lease        time.Duration // the candidate's own LeaseDuration
	WaitOnAbsent bool
	// Token is that of the candidate's last term, and Forfeited says that its lease must run out, because this
	// term's work was late or is unfinished, or because the term was of an earlier Run.
	Token     uint64
	Forfeited bool
}

// Observer is what a candidate has seen of a lock, and the rules by which it
// concludes when it may take it. One goroutine owns it.
type Observer struct {
	self Self
	term tenure // the candidate's last term

	known   bool           // something was seen
	newest  locks.Snapshot // the newest version seen, possibly of no record
	renewal locks.Record   // the last record seen to exist
	exists  bool           // renewal is set
	uid     string         // of renewal's object
	prior   locks.Record   // the record that was seen right before renewal, if any
	gaveUp  bool           // renewal is empty because its holder gave the lock up, or it never had one

	seen         time.Time // first sight of renewal, or of there being nothing
	lifeSeen     time.Time // first sight of the last renewal by a holder
	seenLate     bool      // renewal may be much older than seen: it was there already
	lifeSeenLate bool      // so may be the last renewal by a holder
	startOver    bool      // the history went back, see ObserveRead
	gap          bool      // the record was found gone, and others may have come and gone
	another      bool      // renewal's term is not the one that this process found, see isAnother
	others       bool      // somebody else was seen to hold the lock since this candidate's last term began
	claims       [4]tenure // what this candidate has tried to take since it saw that, the newest first
	restored     bool      // renewal's term came back: the history went back, or somebody put it back over another's

	origin       origin // of renewal, if this candidate created its object
	watchMaySkip bool   // the lock's watches may leave something out
	exact        bool   // the watches leave nothing out, and show records as they were written
	processLock  string // of this process
}

// NewObserver returns an Observer that has seen nothing yet.
func NewObserver(self Self) *Observer { return &Observer{self: self} }

// Observe notes a snapshot that was seen at now, in an event or in the answer to a write.
// It reports whether that was news. It ignores a snapshot that is not newer than the newest
// known one, because a lagging server replays the past.
func (o *Observer) Observe(s locks.Snapshot, now time.Time) bool {
	if o.known && s.Version.Number <= o.newest.Version.Number {
		return false
	}
	o.accept(s, now)
	return true
}

// ObserveRead notes the answer to a read that was sent when asOf was the newest version.
// Reads are linearizable: an answer older than asOf means that the lock's history itself
// went back, as when a database is restored from a backup. The observer believes it, and
// every wait starts again. A read that found nothing has no version. It counts only if
// nothing was seen since it was sent. If the record was known to be gone before, it counts
// only if blind says that something may have happened unseen. A record that was seen to be gone
// since the read was sent is not back because the read shows it.
func (o *Observer) ObserveRead(s locks.Snapshot, asOf locks.Version, blind bool, now time.Time) bool {
	gone := o.known && !o.newest.Version.Exists()
	knewGone := gone && !asOf.Exists() && asOf.Number == o.newest.Version.Number
	switch {
	case !s.Version.Exists():
		if o.known && (o.newest.Version.Number != asOf.Number || !o.newest.Version.Exists() && !blind) {
			return false
		}
		s.Version.Number = asOf.Number
		o.accept(s, now)
		o.missed(now)
		return true
	case o.known && s.Version.Number < asOf.Number:
		o.startOver = true
	case s.Version.Number == o.newest.Version.Number && knewGone:
		// The record exists, although something said that it did not.
	case o.known && s.Version.Number <= o.newest.Version.Number:
		return false
	case gone && !knewGone && s.Version.UID == o.uid:
		return false // it shows the record as it was before something said that it is gone
	}
	o.accept(s, now)
	if !o.watchMaySkip {
		o.seen = now // a known renewal may have been put back over another's that no watch showed
	}
	return true
}

// ObserveEvent notes an event of a watch that leaves nothing out from the version after on.
// It reports whether the event was news.
func (o *Observer) ObserveEvent(e locks.Event, after uint64, now time.Time) bool {
	news := !e.Bookmark && o.Observe(e.Snapshot, now)
	if news && !e.Gapless && !e.Snapshot.Version.Exists() {
		o.missed(now) // as after a read that found nothing
	}
	o.traceOrigin(e, after)
	return news
}

// missed notes that the record is gone. This candidate cannot know who led meanwhile and
// may still lead.
func (o *Observer) missed(now time.Time) { o.seen, o.gap = now, true }

func (o *Observer) accept(s locks.Snapshot, now time.Time) {
	first, lostPart := !o.known, o.lostPart(s)
	o.findOrigin(s, now)
	o.known, o.newest = true, s
	if !s.Version.Exists() {
		return // a deletion is not a release (S4): the record that was seen counts until it expires
	}
	same := s.Record.Holder == "" || s.Record.Holder == o.renewal.Holder
	if o.exists && s.Record.LeaseDuration <= 0 && same { // somebody removed it, and its holder does not know
		s.Record.LeaseDuration = max(o.self.Lease, o.durationOf(o.renewal))
	}
	if o.exists && !o.startOver && o.uid == s.Version.UID && o.renewal.SameRenewal(s.Record) {
		// Somebody may have changed the duration, and the holder does not know.
		longer := max(o.durationOf(o.renewal), o.durationOf(s.Record))
		o.renewal = s.Record
		o.renewal.LeaseDuration = longer
		if lostPart {
			o.missed(now) // somebody may have had the other half
		}
		return
	}
	o.another = o.isAnother(s, first)
	if o.isEarlier(s) && s.Record.LeaseDuration > 0 { // whoever was seen last may go on for as long as its own record asked for
		s.Record.LeaseDuration = max(s.Record.LeaseDuration, o.renewal.LeaseDuration)
	}
	o.seenLate = first || o.startOver
	switch {
	case o.startOver:
		o.restored = tenureOf(o.renewal) != o.term
	case s.Record.Holder != "":
		o.restored = o.others && o.wrote(s.Record) && !slices.Contains(o.claims[:], tenureOf(s.Record)) ||
			o.restored && tenureOf(s.Record) == tenureOf(o.renewal)
	}
	if s.Record.Holder != "" && !o.IsOfThisProcess(s.Record) {
		o.others, o.claims = true, [4]tenure{}
	}
	switch still := o.stillEmpty(s); {
	case !still:
		o.gaveUp = o.givenUp(s)
		o.prior = o.renewal
	case o.gaveUp && !sameRelease(o.renewal, s.Record): // another candidate may have had the lock unseen
		o.gaveUp = o.givenUp(s)
	case !o.gaveUp && o.longerLease() == Longest && s.Record.LeaseDuration > time.Second && renewedBy(o.renewal, s.Record):
		o.prior.LeaseDuration = s.Record.LeaseDuration // a person says for how long the last holder may go on
	case !o.gaveUp: // the last holder may go on for as long as its own record asked for
		s.Record.LeaseDuration = max(o.durationOf(o.renewal), o.durationOf(s.Record))
	}
	if o.gap && s.Partial && s.Record.Holder == o.self.Identity {
		lostPart = true // the watch shows this candidate's half of a takeover after the loss
	}
	if lostPart { // whoever had the part may go on for as long as the record asked for
		s.Record.LeaseDuration = max(o.durationOf(o.renewal), o.durationOf(s.Record))
	}
	o.renewal, o.exists, o.uid, o.startOver = s.Record, true, s.Version.UID, false
	o.seen, o.gap = now, lostPart
	if s.Record.Holder != "" {
		o.lifeSeen, o.lifeSeenLate = now, o.seenLate
	}
}

// lostPart reports whether part of the record has gone since it was last seen, on a lock
// whose watches may have left out why. What is on another object has lost the object that it
// was on. A free record of which somebody takes one part after the other has lost nothing.
func (o *Observer) lostPart(s locks.Snapshot) bool {
	taken := o.renewal.Holder == "" && s.Record.Holder != ""
	return !o.exact && s.Partial && o.exists && (o.uid != s.Version.UID || !o.newest.Partial && !taken)
}

// Seen returns when the last renewal was first seen. Another version of the record may have
// come since, which says nothing about its holder.
func (o *Observer) Seen() time.Time { return o.seen }

// stillEmpty reports whether a snapshot's record has no holder, like the one before.
func (o *Observer) stillEmpty(s locks.Snapshot) bool {
	return o.exists && !o.startOver && o.uid == s.Version.UID && o.renewal.Holder == "" && s.Record.Holder == ""
}

// sameRelease reports whether two empty records belong to one term.
func sameRelease(a, b locks.Record) bool {
	return a.Transitions == b.Transitions && a.Details.Token == b.Details.Token && a.Details.Released == b.Details.Released
}

// Won notes that the candidate has won the lock: token and record are those of its
// new term.
func (o *Observer) Won(token uint64, record locks.Record) {
	o.self.Token, o.term, o.self.Forfeited = token, tenureOf(record), false
	o.others, o.restored = false, false
}

// Renewed notes that a renewal of a trusted term has landed: while the term is
// trusted nobody else can have had the lock before it.
func (o *Observer) Renewed() { o.origin = origin{} }

// Forfeit makes the candidate wait for the lease of its own last term.
func (o *Observer) Forfeit() { o.self.Forfeited = true }

// Known reports whether anything was seen.
func (o *Observer) Known() bool { return o.known }

// Newest returns the newest version seen, possibly of no record.
func (o *Observer) Newest() locks.Snapshot { return o.newest }

// LastRecord returns the last record seen to exist, with the longest duration that
// it had.
func (o *Observer) LastRecord() locks.Record { return o.renewal }

// UID returns the UID of the object that has the last record.
func (o *Observer) UID() string { return o.uid }

// Exact reports whether the lock's watches leave nothing out, and show records as
// they were written.
func (o *Observer) Exact() bool { return o.exact }

// Holder returns the holder that the newest record names, with what is known
// of it; empty if nobody holds the lock.
func (o *Observer) Holder() (string, locks.Details) {
	r := o.newest.Record
	if r.Details.Holder != r.Holder {
		return r.Holder, locks.Details{Holder: r.Holder}
	}
	return r.Holder, r.Details
}

// Holds reports whether the newest version is held by this very process, and was not put back. If
// somebody removed the nonce, the times of the term decide.
func (o *Observer) Holds() bool { return !o.restored && o.holds(o.newest.Record) }

func (o *Observer) holds(r locks.Record) bool {
	if r.Holder != o.self.Identity {
		return false
	}
	unsigned := r.Details.Holder != o.self.Identity || r.Details.Nonce == ""
	return o.wrote(r) || unsigned && tenureOf(r) == o.term
}

// Lost returns why this candidate does not hold the lock any more, by the newest record; empty if it
// does, or if there is no record (S7).
func (o *Observer) Lost() string {
	switch r := o.newest.Record; {
	case !o.newest.Version.Exists(), o.Holds():
		return ""
	case r.Holder == "":
		return "the record was emptied by somebody else"
	case r.Holder != o.self.Identity:
		return "somebody else took it"
	default:
		return fmt.Sprintf("another process of this identity took it, with the nonce %q and the token %d", r.Details.Nonce, r.Details.Token)
	}
}

// IsOfThisProcess reports whether a record says that this very process holds the lock, or does not say
// which process of its identity does.
func (o *Observer) IsOfThisProcess(r locks.Record) bool {
	return r.Holder == o.self.Identity && (r.Details.Nonce == "" || r.Details.Nonce == o.self.Nonce)
}

// MayReclaim reports whether the record is of a term of this candidate that was not given
// up: this candidate still holds the lock, or somebody emptied the record, which still says
// whose term it was. A candidate waits for its own forfeited term as for another candidate's.
func (o *Observer) MayReclaim() bool {
	r := o.renewal
	switch {
	case o.self.Forfeited:
		return false
	case r.Holder != "":
		return r.Holder == o.self.Identity && o.wrote(r)
	case o.gaveUp:
		return false
	}
	return o.wrote(r) && !released(r) && o.prior.Holder == o.self.Identity && r.Transitions == o.term.transitions
}

// wrote reports whether this process wrote a record, or took the lock with it. Two
// processes may have the same identity, against S9, and then only the nonce tells them
// apart.
func (o *Observer) wrote(r locks.Record) bool {
	d := r.Details
	return d.Holder == o.self.Identity && d.Nonce == o.self.Nonce && d.Token <= o.self.Token
}
