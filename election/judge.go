// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"fmt"
	"time"

	"github.com/zonelect/zonelect/locks"
)

// Cause says how a lock came to be free for the next holder.
type Cause string

// The causes of a takeover.
const (
	// CauseExpired: the holder was silent for a whole lease.
	CauseExpired Cause = "expired"
	// CauseReleased: the holder gave the lock up.
	CauseReleased Cause = "released"
	// CauseAbsent: there was no record, and no trace of one.
	CauseAbsent Cause = "absent"
	// CauseDeleted: the record was deleted, and its lease ran out thereafter.
	CauseDeleted Cause = "deleted"
	// CauseCleared: somebody else than the holder emptied the record, and the
	// lease ran out thereafter.
	CauseCleared Cause = "cleared"
	// CauseDied: the holder was proven dead.
	CauseDied Cause = "died"
	// CauseReclaimed: the record names the candidate itself, from a term that
	// has ended or an acquisition whose answer was lost. A term whose work did
	// not stop in time is not reclaimed: its lease runs out, as for any other.
	CauseReclaimed Cause = "reclaimed"
)

// judge is what a candidate knows about a lock and the rules it draws its
// conclusions by. It is pure: it does no I/O, reads no clock and is told the
// time. One goroutine owns it.
type judge struct {
	identity     string
	nonce        string        // of this process: tells its records from those of another of its identity
	lease        time.Duration // the candidate's own LeaseDuration
	waitOnAbsent bool
	maxSkew      time.Duration // see Config.MaxClockSkew
	token        uint64        // of the candidate's last term
	term         tenure        // the candidate's last term
	forfeit      bool          // that term's work was late, or is unfinished: its lease must run out

	known     bool           // something was seen
	newest    locks.Snapshot // the newest version seen, possibly of no record
	renewal   locks.Record   // the last record seen to exist
	exists    bool           // renewal is set
	uid       string         // of renewal's object
	prior     locks.Record   // the record that was seen right before renewal, if any
	priorSeen time.Time      // first sight of prior
	gaveUp    bool           // renewal is empty since its holder gave the lock up, or it never had one

	seen      time.Time // first sight of renewal, or of there being nothing
	lifeSeen  time.Time // first sight of the last renewal by a holder
	startOver bool      // the history went back, see observeRead
	gap       bool      // the record was found gone, and others may have come and gone
	written   time.Time // when renewal was written by its own times, if these count
	broken    bool      // renewal's term does not follow the one seen before

	origin origin    // of renewal, where this candidate made its object
	coarse bool      // the lock's watches may leave something out
	exact  bool      // they do not, and show records as they were written
	dead   tenure    // a term whose holder was proven dead
	deadAt time.Time // when that was heard
}

// freeing says when a lock is free to be taken, and why.
type freeing struct {
	at    time.Time
	cause Cause
	// holder is who held it last, with what is known about that term.
	holder  string
	details locks.Details
	// handover is what the holder said about who leads next when it gave the
	// lock up. It may only delay.
	handover locks.Handover
	// headStart is what run.free has added to at.
	headStart time.Duration
}

// observe takes in a snapshot that was seen at now, by a watch or in the
// answer to a write. It reports whether that was news: what is not newer than
// the newest known is ignored, for a lagging server replays the past.
func (j *judge) observe(s locks.Snapshot, now time.Time) bool {
	if j.known && s.Version.Number <= j.newest.Version.Number {
		return false
	}
	j.take(s, now)
	return true
}

// observeRead takes in the answer to a read that was sent when asOf was the
// newest version. Reads are linearizable: an answer older than asOf means that
// the lock's history itself went back, as when a database is restored from a
// backup. It is believed, and every wait starts anew. A read that found
// nothing has no version, and counts only if nothing was seen since; so it
// does if blind says that things may have happened that nobody saw.
func (j *judge) observeRead(s locks.Snapshot, asOf locks.Version, blind bool, now time.Time) bool {
	switch {
	case !s.Version.Exists():
		if j.known && (j.newest.Version.Number != asOf.Number || !j.newest.Version.Exists() && !blind) {
			return false
		}
		s.Version.Number = asOf.Number
		j.take(s, now)
		// Who led meanwhile, and may lead still, this candidate cannot know.
		j.seen, j.gap = now, true
		return true
	case j.known && s.Version.Number < asOf.Number:
		j.startOver = true
	case j.known && s.Version.Number == j.newest.Version.Number && !j.newest.Version.Exists():
		// It is there, whoever said that it was not.
	case j.known && s.Version.Number <= j.newest.Version.Number:
		return false
	}
	j.take(s, now)
	return true
}

func (j *judge) take(s locks.Snapshot, now time.Time) {
	first, halved := !j.known, j.halved(s)
	j.note(s, now)
	j.known, j.newest = true, s
	if !s.Version.Exists() {
		return // deleted is not released (S4): what was seen goes on until it expires
	}
	if j.exists && s.Record.LeaseDuration <= 0 { // a hand took it off, and its holder does not know
		s.Record.LeaseDuration = max(j.lease, j.durationOf(j.renewal))
	}
	if j.exists && !j.startOver && j.uid == s.Version.UID && j.renewal.SameRenewal(s.Record) {
		// A hand may have changed the duration, of which the holder knows nothing.
		longer := max(j.durationOf(j.renewal), j.durationOf(s.Record))
		j.renewal = s.Record
		j.renewal.LeaseDuration = longer
		if halved {
			j.seen, j.gap = now, true // who had the other half meanwhile, and may lead still, is not known
		}
		return
	}
	j.written = time.Time{}
	if first {
		j.written = j.byWallClock(s, now)
	}
	j.broken = j.breaks(s)
	switch still := j.stillEmpty(s); {
	case !still:
		j.gaveUp = j.givenUp(s.Record)
		j.prior, j.priorSeen = j.renewal, j.seen
	case j.gaveUp && !sameRelease(j.renewal, s.Record): // another may have had it unseen
		j.gaveUp = j.givenUp(s.Record)
	}
	j.renewal, j.exists, j.uid, j.startOver = s.Record, true, s.Version.UID, false
	j.seen, j.gap = now, false
	if s.Record.Holder != "" {
		j.lifeSeen = now
	}
}

// halved reports whether a part of the record is gone since it was seen last, of a
// lock whose watches may have left out why.
func (j *judge) halved(s locks.Snapshot) bool {
	return !j.exact && s.Partial && j.newest.Version.Exists() && !j.newest.Partial
}

// stillEmpty reports whether a snapshot's record has no holder, as the one before.
func (j *judge) stillEmpty(s locks.Snapshot) bool {
	return j.exists && !j.startOver && j.uid == s.Version.UID && j.renewal.Holder == "" && s.Record.Holder == ""
}

// sameRelease reports whether two empty records are of one term.
func sameRelease(a, b locks.Record) bool {
	return a.Transitions == b.Transitions && a.Details.Token == b.Details.Token && a.Details.Released == b.Details.Released
}

// free returns when the lock may be taken (S3), and false while nothing is
// known. It may lie in the past.
func (j *judge) free() (freeing, bool) {
	switch {
	case !j.known:
		return freeing{}, false
	case !j.exists:
		return j.freeAbsent(), true
	case j.gap:
		return j.freeing(j.seen.Add(j.longerLease()), CauseDeleted), true
	case j.own():
		return j.freeing(j.reclaimable(), CauseReclaimed), true
	case j.died():
		return j.freeing(j.deadAt, CauseDied), true
	case j.renewal.Holder == "":
		return j.freeEmpty(), true
	case !j.newest.Version.Exists():
		return j.freeing(j.seen.Add(j.durationOf(j.renewal)), CauseDeleted), true
	}
	at := j.seen.Add(j.durationOf(j.renewal))
	if !j.written.IsZero() {
		at = earliest(at, j.written.Add(j.durationOf(j.renewal)+min(j.maxSkew, longest)+time.Second))
	}
	return j.freeing(at, CauseExpired), true
}

// oldest is how long ago a record may claim to be from. What claims more was
// written by a clock that was never set, or is no time at all.
const oldest = 365 * 24 * time.Hour

// byWallClock is when the first record that a candidate sees was written by the
// times in it, for MaxClockSkew: the one exception of S2. The zero time says
// that they do not count. The later of the two times counts, as a lock of two
// records has one of each. A lease that is counted from there gets one second
// more, for records in whole seconds.
func (j *judge) byWallClock(s locks.Snapshot, now time.Time) time.Time {
	written := latest(s.Record.AcquireTime.Round(0), s.Record.RenewTime.Round(0))
	age := now.Round(0).Sub(written)
	if j.maxSkew <= 0 || s.Partial || s.Record.RenewTime.IsZero() || age < 0 || age > oldest {
		return time.Time{}
	}
	return now.Add(-age)
}

// reclaimable is when a record of the candidate's own may be taken back: at
// once, unless it is not known who had the lock before it was made (S4), or it is
// what is left of one that another had just before, who does not know that the
// rest is gone.
func (j *judge) reclaimable() time.Time {
	if j.origin.number != 0 {
		return latest(j.seen, j.origin.until)
	}
	if !j.newest.Partial || j.prior.Holder == "" || j.prior.Holder == j.identity {
		return j.seen
	}
	return latest(j.seen, j.priorSeen.Add(j.durationOf(j.prior)))
}

// own reports whether the record is of a term of this candidate's that was not
// given up: it holds the lock, or a hand emptied it and nobody took it since. One
// that is forfeit is waited for as another candidate's is.
func (j *judge) own() bool {
	r := j.renewal
	switch {
	case j.forfeit, !j.wrote(r):
		return false
	case r.Holder == "":
		return !j.gaveUp && !released(r) && j.prior.Holder == j.identity && r.Transitions == j.term.transitions
	}
	return r.Holder == j.identity
}

// wrote reports whether this process wrote a record, or took the lock by it:
// identities are used twice, against S9, and then only the nonce tells.
func (j *judge) wrote(r locks.Record) bool {
	d := r.Details
	return d.Holder == j.identity && d.Nonce == j.nonce && d.Token <= j.token
}

// holds reports whether the newest version is held by this very process. Where
// somebody took the nonce off, the times of the term tell.
func (j *judge) holds() bool {
	r := j.newest.Record
	if r.Holder != j.identity {
		return false
	}
	unsigned := r.Details.Holder != j.identity || r.Details.Nonce == ""
	return j.wrote(r) || unsigned && tenureOf(r) == j.term
}

// stranger says by what the newest record, of the own identity, is another's.
func (j *judge) stranger() string {
	switch d := j.newest.Record.Details; {
	case d.Holder != j.identity, d.Nonce == "":
		return "the record has no nonce, and is of another term"
	case d.Nonce != j.nonce:
		return "the record has the nonce " + d.Nonce
	default:
		return fmt.Sprintf("the record has the newer token %d", d.Token)
	}
}

func (j *judge) freeAbsent() freeing {
	if j.waitOnAbsent {
		return freeing{at: j.seen.Add(j.lease), cause: CauseAbsent}
	}
	return freeing{at: j.seen, cause: CauseAbsent}
}

// freeEmpty judges a record without holder.
func (j *judge) freeEmpty() freeing {
	if j.gaveUp {
		f := j.freeing(j.seen, CauseReleased)
		f.handover = j.handover()
		return f
	}
	return j.freeing(j.seen.Add(j.longerLease()), CauseCleared)
}

// givenUp reports whether a record that is about to follow renewal is empty since
// its holder gave the lock up, or never had a holder. After a term of ours it
// counts as given up only if that term's token is noted as released: a client-go
// candidate that was paused can clear the lease of another (facts: release
// checks the holder it remembers). Each release, client-go's too, writes a new
// renewTime and the shortest lease; a hand that empties a record does not, nor
// is a backup that was restored a release.
func (j *judge) givenUp(r locks.Record) bool {
	switch {
	case !released(r) && !clearedItsOwn(j.renewal, r):
		return false
	case !j.exists:
		return r.RenewTime.IsZero() || r.LeaseDuration <= time.Second
	}
	anew := !r.RenewTime.IsZero() && r.RenewTime.UnixMicro() != j.renewal.RenewTime.UnixMicro()
	return anew && r.LeaseDuration <= time.Second && !j.startOver
}

// handover is what a released record says about who leads next; nothing where
// it is not of the term that was given up last.
func (j *judge) handover() locks.Handover {
	h := j.renewal.Details.Handover
	if h.To == "" || clearedItsOwn(j.prior, j.renewal) {
		return locks.Handover{}
	}
	h.Precedence = min(max(0, h.Precedence), j.lease)
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

// life is the last sign of life of the holder before a takeover.
func (j *judge) life(c Cause) time.Time {
	if c.ranOut() || c == CauseDied {
		return j.lifeSeen
	}
	return j.seen
}

func (j *judge) freeing(at time.Time, cause Cause) freeing {
	last := j.renewal
	if last.Holder == "" {
		last.Holder = last.Details.Holder
		if j.prior.Holder != "" {
			last.Holder = j.prior.Holder
		}
	}
	f := freeing{at: at, cause: cause, holder: last.Holder}
	if last.Details.Holder == last.Holder {
		f.details = last.Details // believed only then (S11)
	}
	return f
}

// longest is as good as for ever, and leaves room for sums.
const longest = 100 * 365 * 24 * time.Hour

// durationOf is the lease that a record asks for: the candidate's own where
// there is none, or nonsense.
func (j *judge) durationOf(r locks.Record) time.Duration {
	if r.LeaseDuration <= 0 {
		return j.lease
	}
	return min(r.LeaseDuration, longest)
}

// longerLease is the candidate's own lease, or that of the last record if it is
// longer. One that was emptied has the least there is: that before it counts.
func (j *judge) longerLease() time.Duration {
	lease := max(j.lease, j.durationOf(j.renewal))
	if j.renewal.Holder == "" {
		lease = max(lease, j.durationOf(j.prior))
	}
	return lease
}

// holder returns the holder that the newest record names, with what is known
// of it; empty if nobody holds the lock.
func (j *judge) holder() (string, locks.Details) {
	r := j.newest.Record
	if r.Details.Holder != r.Holder {
		return r.Holder, locks.Details{Holder: r.Holder}
	}
	return r.Holder, r.Details
}
