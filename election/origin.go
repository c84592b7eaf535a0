// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"time"

	"github.com/zonelect/zonelect/locks"
)

// pastUnknown is what a record says that is held and not led by yet.
const pastUnknown = "the record was deleted, and somebody else may have had it and lead still: the watch tells, or a lease that runs out"

// origin is how an own record came to be where there was none. A write on a
// record fails if anybody wrote another one meanwhile; a creation does not, if
// that was deleted again. So what came before it must be known from the watch,
// which leaves nothing out, or be waited for: after a creation nobody else can
// renew (S4). The zero origin is that of all other records.
type origin struct {
	number uint64 // of the first version of the object that was seen
	before uint64 // of the newest version known before; zero if none was
	marred bool   // somebody else had the lock in between
	seen   time.Time
	until  time.Time // whoever had it before does not lead any more then
}

// note takes in where a record comes from that is about to be the newest. Who
// never saw any has nothing to go by, and does not ask, unless WaitOnAbsent is
// set; nor does who cannot be told by the lock's watches.
func (j *judge) note(s locks.Snapshot, now time.Time) {
	holder := s.Record.Holder
	switch {
	case !s.Version.Exists(), j.exists && j.uid == s.Version.UID && (holder == "" || holder == j.identity):
		return
	case holder != j.identity, !j.mayAsk():
		j.origin = origin{}
		return
	}
	free, known := j.free()
	j.origin = origin{
		number: s.Version.Number,
		before: j.newest.Version.Number,
		marred: !known || free.at.After(now) || j.unproven(now),
		seen:   now,
		until:  now.Add(j.longerLease()),
	}
}

func (j *judge) mayAsk() bool { return (j.exists || j.waitOnAbsent) && !j.coarse }

// asks reports whether it is not known who had the lock before a takeover of base.
func (j *judge) asks(base locks.Snapshot) bool {
	return !base.Version.Exists() && j.mayAsk()
}

// unproven reports whether the own record is one that was made where there was
// none, and others may lead still who had the lock before.
func (j *judge) unproven(now time.Time) bool {
	return j.origin.number != 0 && now.Before(j.origin.until)
}

// hindsight takes in what a watch says that leaves out nothing after a version.
func (j *judge) hindsight(e locks.Event, after uint64) {
	o := &j.origin
	j.exact = e.Gapless
	switch s := e.Snapshot; {
	case !e.Gapless:
		j.coarse, *o = true, origin{}
	case o.number == 0:
	case s.Version.Number < o.number:
		if !e.Bookmark && s.Record.Holder != "" && s.Record.Holder != j.identity {
			o.marred, o.until = true, latest(o.until, o.seen.Add(j.durationOf(s.Record)))
		}
	case !o.marred && after <= o.before:
		*o = origin{}
	}
}

// hear takes in an event of the watch, and reports whether it was news.
func (r *run) hear(e locks.Event, now time.Time) bool {
	r.watcher.hear(e, now)
	r.note(opWatch, nil)
	news := !e.Bookmark && r.observe(e.Snapshot, now)
	if news && !e.Gapless && !e.Snapshot.Version.Exists() {
		r.judge.seen, r.judge.gap = now, true // as after a read that found nothing
	}
	r.judge.hindsight(e, r.watcher.after)
	return news
}

// hold keeps a lock whose record was made where there was none, and lets nothing
// begin yet.
func (r *run) hold(l *leadership) {
	l.held = true
	r.board.publish(ChangeAdopting, nil, func(s *Status) { // with no term that others could act on
		s.State, s.Holder, s.HolderZone = StateAdopting, l.term.Holder, l.term.Zone
	})
}

// await adopts a term that was only held once that is proven, and returns when to
// look again at the latest.
func (r *run) await(l *leadership, now time.Time) time.Time {
	if !l.held || l.cause != nil {
		return now.Add(time.Hour)
	}
	if r.judge.unproven(now) {
		r.waiting(pastUnknown)
		return r.judge.origin.until
	}
	l.held = false
	r.waiting("")
	r.adopt(l)
	return now.Add(time.Hour)
}
