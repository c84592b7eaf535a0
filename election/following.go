// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
	"github.com/zonelect/zonelect/locks"
)

// prepareLead is the least time before an expiry at which a candidate that is about to take
// over makes sure that it has a live connection. That takes two answers, so a slow server
// calls for more.
const prepareLead = time.Second

// following is one candidacy, until the lock is won. Its fields hold what the candidate
// knows, and next decides what it does.
type following struct {
	*run

	refreshAt time.Time        // when an optional read is due; zero if none is wanted
	retryAt   time.Time        // no read before this
	claimAt   time.Time        // no write before this: the last may have landed
	heard     time.Time        // when there was news of the lock, from any source
	gaps      [2]time.Duration // between the last events of the watch, the newest last
	asked     time.Time        // when this candidate has last read after a silence; zero if there was news since
	prepared  bool             // the connection was checked for this expiry
	ahead     time.Duration    // how long before an expiry the connection is checked
	rewatched time.Time        // when a watch last began before a read was answered
	rewatch   bool             // another watch starts after the read that is under way
	blind     bool             // something may have happened unseen since the last read
	retries   *pauses          // between reads that fail
	refusals  *pauses          // between writes that fail or are refused

	delay       time.Duration // by how much later this candidate does what all do at the same moment
	barred      bool          // this candidate may not campaign
	acquisition acquisition   // the takeover that is under way
}

// follow begins a candidacy.
func (r *run) follow() {
	timing := r.config.Timing
	f := &following{
		run:      r,
		retries:  r.newPauses(timing.RenewInterval),
		refusals: r.newPauses(4 * timing.RenewInterval),
	}
	if r.observer.MayReclaim() { // it can take the lock back only within a precedence
		f.retries = r.newPauses(timing.RenewInterval / 4)
	}
	r.exchange.begin()
	r.exchange.doubt()
	f.news(time.Now())
	r.outage = rules.NewOutage(timing.RenewDeadline, timing.Precedence, time.Now())
	r.report.campaigning()
	r.enter(f)
}

// proceed does what is due, and returns by when to look again.
func (f *following) proceed() time.Time {
	now := time.Now()
	if f.observer.Known() && f.watcher.due(now) {
		f.watcher.start(f.watching)
	}
	free, delay, known := f.free()
	if !f.exchange.acquiring() && (!known || free.At.After(now)) {
		f.acquisition = acquisition{} // another candidate was faster, or the holder lives
	}
	why := f.waitsFor()
	f.barred = why != "" || !f.permission.Granted || f.unfit()
	f.report.waiting(why)
	f.delay = f.stagger(delay)
	f.ahead = max(prepareLead, min(2*f.exchange.readTook, f.config.Timing.LeaseDuration/4))
	if f.delay > 0 { // most of a crowd take over at the end of the spread: they do not all ask then
		f.ahead += f.config.Timing.RenewInterval/2 - f.delay
	}
	do, until := f.next(now, free.At, known)
	if do != wait {
		f.perform(do)
		until = now
	}
	return f.watcher.earlier(until)
}

// handle answers an event. The candidacy ends if the guardian returns or Run's context
// ends.
func (f *following) handle(e event) {
	switch e := e.(type) {
	case stopWanted:
		f.withdraw()
		f.finish(nil)
	case guardianGone:
		f.withdraw()
		var err error
		if f.ctx.Err() == nil {
			err = abandoned(e.err)
		}
		f.finish(err)
	case answer:
		if f.answered(e) {
			f.win()
		}
	case locks.Event:
		f.hear(e)
	case watchOver:
		f.watchEnded(e.err)
		if e.err != nil {
			f.blind, f.refreshAt = true, time.Now().Add(f.currentStagger())
		}
	case resignation:
		e <- ErrNotLeading // the term ended before the call arrived
	default:
		f.run.handle(e)
	}
}

// win begins the term that was won, or gives the lock back if Run is to return.
func (f *following) win() {
	if f.ctx.Err() != nil {
		_ = f.release(0, "", f.acquisition.won.sent, locks.Handover{}, false) // release has reported its problems itself
		f.finish(nil)
		return
	}
	f.begin(f.acquisition)
}

// hear handles an event of the watch.
func (f *following) hear(e locks.Event) {
	now, before := time.Now(), f.observer.Seen()
	if !f.observeEvent(e, now) {
		return // a watch that lives is no sign of the lock's holder or of the API behind it
	}
	f.outage.Answered(now)
	if f.tells(e.Snapshot, before) {
		f.gaps = [2]time.Duration{f.gaps[1], now.Sub(f.heard)}
		f.news(now)
	}
	f.publishHolder()
}

// tells reports whether a version of the record says anything about its holder: it is gone,
// or it is another renewal than the one that was seen before.
func (f *following) tells(s locks.Snapshot, before time.Time) bool {
	return !s.Version.Exists() || !f.observer.Seen().Equal(before)
}

// publishHolder reports who holds the lock. It leaves out this candidate itself, which may see its
// own acquisition before the answer that begins its term.
func (r *run) publishHolder() {
	holder, details := r.observer.Holder()
	delete(r.noShows, holder)
	if holder != r.me.Identity {
		r.report.following(holder, details.Zone)
	}
}

// withdraw ends a candidacy. A write on its way may win the lock, so withdraw waits for it
// and gives the lock back, because nobody will lead. It also gives back a lock that was
// kept after a lost term.
func (f *following) withdraw() {
	settled := f.settle()
	open := f.exchange.open // of which some may have been settled
	if !settled {
		return // a write may still land
	}
	given := len(open) > 0 && f.release(0, "", open[len(open)-1].sent, locks.Handover{}, true)
	if kept := f.keptTerm; kept != nil && !given { // release has reported its problems itself
		_ = f.release(kept.term.Token, kept.trace, kept.last.sent, locks.Handover{}, true)
	}
}

// news notes that the lock changed: all waiting starts again.
func (f *following) news(now time.Time) {
	f.heard, f.asked, f.prepared = now, time.Time{}, false
	f.refusals.reset()
}

// readFirst makes a read due at once. This candidate writes nothing before a read that is
// sent from now on has shown the state of the lock.
func (f *following) readFirst(now time.Time) {
	f.exchange.doubt()
	f.retryAt = now
}

// silentAt is when this candidate has heard nothing for so long that it reads by itself. It hears less often of
// a holder whose renewals take long, as on a slow API server. The shorter of the last two gaps between events
// counts, so that one late renewal does not.
func (f *following) silentAt() time.Time {
	gap := min(f.gaps[0], f.gaps[1], f.config.Timing.LeaseDuration/3)
	return f.heard.Add(max(f.config.Timing.Silence(), gap*3/2) + f.delay)
}

// askNext is when this candidate reads by itself unless it hears something: after a silence, and
// then seldom. A record that keeps it waiting for longer, perhaps forever, may have changed since,
// and its watch may be silent.
func (f *following) askNext() time.Time {
	if f.asked.IsZero() {
		return f.silentAt()
	}
	pause := max(time.Minute, 2*f.config.Timing.LeaseDuration)
	return f.asked.Add(pause + time.Duration(f.share*float64(pause)))
}

// next decides what to do now, or until when to wait. free is when the lock may be taken,
// takeover delay included; known says whether that is known. While this candidate waits for an
// answer, it reads nothing that it could do without.
func (f *following) next(now, free time.Time, known bool) (step, time.Time) {
	needs := wants{read: f.retryAt}
	if known && !f.barred {
		needs.write = rules.Latest(free, f.claimAt)
	}
	do, until := f.exchange.next(now, needs)
	if do != wait || f.exchange.busy() || f.exchange.full() {
		return do, until
	}
	due := func(at ...time.Time) bool {
		t := rules.Latest(append(at, f.retryAt)...)
		until = rules.Earliest(until, t)
		return !t.After(now)
	}
	switch {
	case !f.refreshAt.IsZero() && due(f.refreshAt):
		return read, now
	case !known:
	case !f.prepared && due(free.Add(-f.ahead), f.silentAt()),
		(f.asked.IsZero() || free.After(now)) && due(f.askNext()):
		return readFresh, now
	}
	return wait, until
}
