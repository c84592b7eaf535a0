// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
	"github.com/zonelect/zonelect/locks"
)

const (
	// mostFlights is how many requests may be under way at a time. One of so many is canceled, so
	// that there is room for another.
	mostFlights = 5
	// mostOpen is how many writes are kept that may or may not have landed. The oldest is worth
	// the least.
	mostOpen = 8
)

// exchange is what this candidate and the lock have said to each other: which requests are under
// way, which writes may have landed, and whether a read must show the state of the lock before the
// next write. It is pure: it does no I/O, and gets the time as an argument.
type exchange struct {
	timing   Timing
	observer *rules.Observer

	flights []*flight // requests under way, oldest first
	newest  *flight   // the last request, while the loop waits for its answer
	// open are the writes of this candidacy or term that may or may not have landed, oldest first. A
	// read that finds the record of one shows that it landed, which is as good as its answer. Trust
	// counts from when it was sent in any case (S1).
	open []*flight

	readTook   time.Duration    // how long a read takes, by the last answers: no longer than a write
	writeTook  time.Duration    // how long a write takes
	roundTrips [2]time.Duration // how long the last reads took
	shown      shown            // by the last read

	unsure     bool           // a read must show the state of the lock before the next write
	overtaken  int            // requests that were overtaken since the last answer
	unanswered time.Time      // when the last request was sent, if it got no answer: its connection may be dead
	denied     *locks.Version // what the last write was to replace, if it met a conflict
	denials    int            // conflicts since a write landed
}

// busy reports whether the loop waits for the answer to the last request.
func (x *exchange) busy() bool { return x.newest != nil }

// writing reports whether the outcome of a write is still to come.
func (x *exchange) writing() bool {
	return slices.ContainsFunc(x.flights, func(f *flight) bool { return f.writes() })
}

// acquiring reports whether an acquisition is under way.
func (x *exchange) acquiring() bool {
	return slices.ContainsFunc(x.flights, func(f *flight) bool { return f.op == opAcquire })
}

// dueBy is by when a request under way must be over, or t if that is earlier.
func (x *exchange) dueBy(t time.Time) time.Time {
	for _, f := range x.flights {
		t = rules.Earliest(t, f.end())
	}
	return t
}

// full reports whether no other request may be sent now.
func (x *exchange) full() bool { return len(x.flights) >= mostFlights }

// send notes that a request is sent now. The others go on, except the one that it returns, which is to be
// canceled to make room for the next: a lost one, or else the oldest.
func (x *exchange) send(f *flight) (excess *flight) {
	x.flights, x.newest = append(x.flights, f), f
	if f.op == opAcquire || f.op == opRenew {
		x.open = append(x.open, f)
		x.open = x.open[max(0, len(x.open)-mostOpen):]
	}
	if x.full() {
		excess = x.flights[max(0, slices.IndexFunc(x.flights, func(f *flight) bool { return f.lost }))]
	}
	return excess
}

// came notes that an answer has come, and how long it took.
func (x *exchange) came(a *answer) {
	f := a.flight
	is := func(other *flight) bool { return other == f }
	x.flights = slices.DeleteFunc(x.flights, is)
	a.op = f.op
	if a.newest = f == x.newest; a.newest {
		x.newest = nil
	}
	if a.known = a.writes() && !slices.ContainsFunc(x.open, is); !a.writes() {
		a.known = !a.newest && errors.Is(a.err, context.Canceled)
	}
	if a.failed() {
		if a.newest {
			x.unanswered = a.sent.awake
		}
		if a.writes() {
			x.denied = nil
		}
		return
	}
	x.overtaken = 0
	if a.newest || a.conflict() {
		x.unanswered = time.Time{}
	}
	switch took := a.end.Sub(a.sent.awake); {
	case a.conflict(): // the server may have tried the write again before it answered
		x.open = slices.DeleteFunc(x.open, is)
	case a.writes():
		x.readTook, x.writeTook = min(took, x.readTook), took
	default:
		x.readTook, x.writeTook = took, max(took, x.writeTook)
	}
}

// begin notes that a candidacy or a term begins: no write before it says anything about it.
func (x *exchange) begin() {
	for _, f := range x.flights {
		if f.op == opAcquire {
			f.op = opRenew
		}
	}
	if x.newest != nil && !x.newest.writes() {
		x.newest = nil // it can tell no more
	}
	x.open = nil
	x.unsure, x.denied, x.denials, x.unanswered, x.overtaken = false, nil, 0, time.Time{}, 0
}

// doubt makes a read due before the next write: one that is sent from now on.
func (x *exchange) doubt() { x.unsureUntil(math.MaxUint64) }

// unsureUntil makes a read due before the next write: one that is sent from now on, or that shows this
// version or a later one.
func (x *exchange) unsureUntil(version uint64) {
	for _, f := range x.flights {
		if !x.unsure {
			f.needs = 0
		}
		f.needs = max(f.needs, version)
	}
	x.unsure = true
}

// overtake notes that the last request is slow or lost, and another is to overtake it. A write may
// have landed, so a read has to show that first. No write is sent meanwhile, so each read that is
// sent from the doubt on comes after all of them.
func (x *exchange) overtake() {
	x.overtaken++
	x.unanswered = x.newest.sent.awake
	if x.newest.writes() {
		x.doubt()
	}
}

// refused notes that a write met a conflict. It makes a read due before the next write: one that is
// sent from now on, or that shows a later version than the write was to replace. A creation replaces none.
func (x *exchange) refused(a answer) {
	x.denials++
	x.denied = &a.base
	if !a.base.Exists() { // that there was no record says nothing about the one that a creation met
		x.doubt()
		return
	}
	x.unsureUntil(a.base.Number + 1)
}

// counts reports whether a read has shown the state of the lock, and notes that. One that another
// has overtaken is as good as the newest if it brought news, or was sent after the last write and
// the last conflict, or explains the conflict. While the state is unsure, only a record is news: a
// creation may have met one. What lands after a read, whichever it is, makes the next write a conflict.
func (x *exchange) counts(a answer, news bool) bool {
	shows := news || a.newest
	if x.unsure {
		shows = news && a.snapshot.Version.Exists() || a.shows(a.flight.needs)
	}
	x.unsure = x.unsure && !shows
	return shows
}

// acknowledged notes that a write has landed. If no write is open then, no request under way can tell
// more.
func (x *exchange) acknowledged(a answer) {
	x.denials = 0
	x.supersede()
	newest := x.observer.Newest().Version
	x.open = slices.DeleteFunc(x.open, func(f *flight) bool { return f.sent.since(a.sent) <= 0 || f.isSuperseded(newest) })
	if len(x.open) > 0 {
		return
	}
	x.newest = nil
	x.unsure, x.denied, x.unanswered = false, nil, time.Time{}
}

// supersede notes which writes the newest version has made impossible. Nothing waits for their
// answers. A creation may still land, if somebody deletes the record first, so only a release waits
// for that.
func (x *exchange) supersede() {
	newest := x.observer.Newest().Version
	for _, f := range x.flights {
		f.lost = f.lost || f.writes() && f.isSuperseded(newest)
	}
	if f := x.newest; f != nil && (f.lost || f.writes() && !f.base.Exists() && newest.Exists()) {
		x.newest = nil
	}
}

// waitAgain waits for the answer to the last write again after a read has shown that it has not
// landed, unless it is to be repeated: at once if it has been under way for long and
// repeats no other, because its connection may be dead. Each further repetition waits twice as
// long. The server is slow to write then, and repetitions make it slower.
func (x *exchange) waitAgain(shown locks.Snapshot, now time.Time) {
	writes := slices.DeleteFunc(slices.Clone(x.flights), func(f *flight) bool { return !f.mayLand() })
	if x.unsure || x.busy() || len(writes) == 0 {
		return
	}
	f := writes[len(writes)-1]
	same := f.base.Exists() == shown.Version.Exists() && (!f.base.Exists() || f.base.Number == shown.Version.Number)
	if same && now.Before(f.sent.awake.Add(x.patience(true)<<min(len(writes)-1, 4))) {
		f.unlanded, x.newest = now, f
	}
}

// patience is how long a request may go without an answer before another one overtakes it:
// half as long again as the last answer took, so that a slow server is not asked twice. Writes
// may be slow where reads are fast. A candidate that gets no answers gives each request more time.
// The leader does not, nor the former one, so that it is back first after an outage.
func (x *exchange) patience(writes bool) time.Duration {
	took, t := x.readTook, x.timing
	if writes {
		took = x.writeTook
	}
	patience := max(t.AttemptTimeout, min(took*3/2, max(took*9/8, t.RenewDeadline/2)))
	if x.observer.MayReclaim() {
		return patience
	}
	return max(patience, min(patience<<min(x.overtaken, 4), t.AttemptTimeout+t.RenewInterval*3/2))
}

// step is what a candidate does next.
type step int

const (
	wait      step = iota
	read           // on any connection
	readFresh      // on a connection that is known to be alive
	overtake       // read on another connection: the request under way is slow, or lost
	write
)

// wants is what a candidate wants of the lock.
type wants struct {
	write time.Time // when it is to write next; zero if it is not
	read  time.Time // when it is to read the state of the lock, if it is unsure of that
	until time.Time // when its term is over; zero without one
}

// next decides what to do now, or until when to wait. Nothing is written while the state of the lock
// is unsure, or a write is waited for, or right after one that may have landed.
func (x *exchange) next(now time.Time, w wants) (step, time.Time) {
	until := now.Add(time.Hour)
	due := func(at time.Time) bool {
		until = rules.Earliest(until, at)
		return !at.After(now)
	}
	for _, f := range x.open {
		if !w.write.IsZero() && !f.isSuperseded(x.observer.Newest().Version) {
			w.write = rules.Latest(w.write, f.sent.awake.Add(spacing(x.timing)))
		}
	}
	switch f := x.newest; {
	case x.full():
	case !x.unsure && (f == nil || !f.writes()) && !w.write.IsZero() && due(w.write):
		return write, now
	case f != nil && due(x.overtakeAt(f, now, w.until)):
		return overtake, now
	case f == nil && x.unsure && due(w.read):
		return read, now
	}
	return wait, until
}

// overtakeAt is when a read is to overtake the last request. A term leaves out a read whose answer
// would come too late.
func (x *exchange) overtakeAt(f *flight, now, until time.Time) time.Time {
	due := f.overdueAt(x.patience(f.writes()))
	if f.writes() {
		due = rules.Earliest(due, x.askWhen(now))
	}
	if until.IsZero() {
		return due
	}
	if !f.unlanded.IsZero() { // it may be lost: another must have its chance
		due = rules.Earliest(due, f.unlanded.Add(until.Sub(f.unlanded)/2))
	}
	if until.Sub(due) <= max(x.readTook, x.timing.AttemptTimeout/8) {
		return until
	}
	return due
}

// landing returns the open write whose record is the newest; nil if none is. If two look alike, it
// returns the one that was sent first.
func (x *exchange) landing() *flight {
	s := x.observer.Newest()
	if !s.Version.Exists() || s.Partial {
		return nil
	}
	for _, f := range x.open {
		if s.Record.SameRenewal(f.record) && s.Record.Details.Nonce == f.record.Details.Nonce {
			return f
		}
	}
	return nil
}

// shownLanding returns the open write that a read has shown to have landed before its answer came;
// nil if there is none. That is as good as the answer, unless the record has two parts, one of which
// may be older, or others wait for less time than the write asked for. What only a watch has shown
// confirms nothing, because no safety rule may depend on a watch (S6).
func (x *exchange) shownLanding(read answer) *flight {
	if !x.showsNewest(read) || !x.observer.Exact() {
		return nil
	}
	if f := x.landing(); f != nil && x.observer.Newest().Record.LeaseDuration >= f.record.LeaseDuration {
		return f
	}
	return nil
}

// showsNewest reports whether a read itself has shown the newest known version.
func (x *exchange) showsNewest(a answer) bool {
	return a.err == nil && a.snapshot.Version.Number == x.observer.Newest().Version.Number
}

// landedSince reports whether a watch has shown a write of this candidate that a read does not show,
// because the read was answered before. The next read confirms it. Another acquisition would replace
// it, perhaps while its own answer begins the term.
func (x *exchange) landedSince(read answer) bool {
	return x.landing() != nil && x.observer.Exact() && !x.showsNewest(read)
}

// isStillNewest reports whether, after a write met a conflict, a read has shown the very
// version that the write was to replace. Nothing explains such a conflict, so the elector
// does not hurry: the server may refuse all writes.
func (x *exchange) isStillNewest() bool {
	return x.denied != nil && x.observer.Newest().Version.Number == x.denied.Number
}

// shown is what the read that was sent last has shown, of those that have been answered.
type shown struct {
	number uint64 // of the version; zero if that cannot date a landing
	sent   moment
}

// note notes the answer to a read.
func (s *shown) note(read answer) {
	if s.sent.awake.IsZero() || read.sent.since(s.sent) > 0 {
		*s = shown{sent: read.sent}
		if v := read.snapshot; v.Version.Exists() && !v.Partial {
			s.number = v.Version.Number
		}
	}
}

// trustedFrom is when trust in an acknowledged write begins (S1): when it was sent, or when a
// read was sent that still showed the version that the write then replaced. Reads are
// linearizable, so the write landed after that, and nobody saw it before.
func (x *exchange) trustedFrom(a answer) moment {
	if a.base.Exists() && x.observer.Exact() && x.shown.number == a.base.Number && x.shown.sent.since(a.sent) > 0 {
		return x.shown.sent
	}
	return a.sent
}

// askWhen is when a read should show whether the writes under way have landed, so that once the
// first of them is acknowledged, its trust covers another one that takes as long. If two answers
// fit into a RenewDeadline, no read is needed.
func (x *exchange) askWhen(now time.Time) time.Time {
	never := now.Add(rules.Longest)
	i := slices.IndexFunc(x.flights, func(f *flight) bool { return f.mayLand() && f.base.Exists() })
	if i < 0 || !x.observer.Exact() {
		return never
	}
	first := x.flights[i]
	_, fitsTwice := x.timing.Bounds()
	sent, from, least := first.sent.awake, first.sent.awake, first.sent.awake
	switch {
	case !x.shown.sent.awake.After(sent): // no read was sent since
	case x.shown.number != first.base.Number:
		return never // another write has landed
	default:
		from = x.shown.sent.awake
		least = from.Add(x.timing.AttemptTimeout / 2)
	}
	return rules.Latest(least, sent.Add(fitsTwice+from.Sub(sent)/2))
}

// measure notes how long a read took. A request on a fresh connection takes three round
// trips: TCP, TLS and its own. One that another overtook says how long the API was away, as
// while etcd elects a leader. The shorter of the last two counts, because a dial may have been
// lost, and the last one that waited for that election was not overtaken.
func (x *exchange) measure(a answer) {
	took, first := a.end.Sub(a.sent.awake), x.roundTrips[1] == 0
	if first || a.fresh() { // nothing had a connection before the first
		took /= 3
	}
	switch {
	case first:
		x.roundTrips = [2]time.Duration{took, took}
	case a.newest:
		x.roundTrips = [2]time.Duration{x.roundTrips[1], took}
	}
}

func (x *exchange) roundTrip() time.Duration { return min(x.roundTrips[0], x.roundTrips[1]) }
