// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
)

// prepareLead is how long before an expiry a candidate that is about to take
// over makes sure of a living connection: at least, for that takes two answers.
const prepareLead = time.Second

// following is one candidacy: what is done until the lock is won. Its fields are what
// it knows, and next decides what it does.
type following struct {
	*run

	unsure        bool             // nothing is written before a read has told how things are
	unsureAt      time.Time        // since when; only a read that was sent then or later tells
	refresh       bool             // an optional read is wanted
	refreshAt     time.Time        // no optional read before this
	retryAt       time.Time        // no read before this
	claimAt       time.Time        // no write before this: the last may have landed
	heard         time.Time        // when there was news of the lock, by any way
	gaps          [2]time.Duration // between the last events of the watch, the newest last
	asked         bool             // silence has been answered by a read
	prepared      bool             // the connection was made sure of for this expiry
	unanswered    time.Time        // when the last request was sent, if it got no answer: its connection may be dead
	overtakeAfter time.Duration    // how long a request goes without an answer until another overtakes it
	amendEvery    time.Duration    // how long a claim goes without an answer until it is amended; zero if it is not
	overtaken     int              // how many requests were overtaken since there was an answer
	ahead         time.Duration    // how long before an expiry the connection is made sure of
	writes        sentWrites
	rewatch       bool    // the read on its way is to be followed by another watch
	blind         bool    // since the last read things may have happened unseen
	retries       *pauses // between reads that fail
	refusals      *pauses // between writes that fail or are refused

	// What all do at the same moment this candidate does later or earlier by this.
	delay, early time.Duration

	denied      *locks.Version // what the last write was to replace, if it met a conflict
	barred      bool           // the lock's guardian does not let this candidate campaign
	acquisition acquisition    // the takeover that is under way
}

// follow begins a candidacy.
func (r *run) follow() {
	timing := r.config.Timing
	f := &following{
		run:      r,
		unsure:   true,
		retries:  r.newPauses(timing.RenewInterval),
		refusals: r.newPauses(4 * timing.RenewInterval),
	}
	if r.observer.MayReclaim() { // it is within a precedence that the lock can be had back
		f.retries = r.newPauses(timing.RenewInterval / 4)
	}
	f.news(time.Now())
	r.outage = rules.NewOutage(timing.RenewDeadline, timing.Precedence, time.Now())
	r.board.update(func(s *Status) { s.State = status.StateFollower })
	r.enter(f)
}

// proceed does what is due, and returns when to look again at the latest.
func (f *following) proceed() time.Time {
	now := time.Now()
	if f.observer.Known() && f.watcher.due(now) {
		f.watcher.start(f.watching)
	}
	f.probeDeath()
	free, known := f.free()
	if !f.requester.acquiring() && (!known || free.At.After(now)) {
		f.acquisition = acquisition{} // another one was faster, or the holder lives
	}
	f.barred = !f.permission.Granted || f.unfit()
	f.delay, f.early = f.stagger(free.headStart), f.prepareEarly(free.headStart)
	f.overtakeAfter, f.amendEvery = f.impatience(), f.requester.amendEvery(f.config.Timing, now)
	f.ahead = max(prepareLead, min(2*f.requester.took, f.config.Timing.LeaseDuration/4))
	do, until := f.next(now, free.At, known, f.requester.newest)
	switch {
	case do == wait:
	case do == amend:
		f.amendClaim()
		until = now
	case f.requester.room():
		f.perform(do)
		until = now
	default:
		until = now.Add(time.Hour)
	}
	return f.watcher.earlier(until)
}

// impatience is how long a request of this candidacy may go without an answer
// until another overtakes it. A candidate that gets no answers gives each request
// more time. The former leader does not, so that it is back first after an outage.
func (f *following) impatience() time.Duration {
	patience, timing := f.patience(), f.config.Timing
	if f.observer.MayReclaim() {
		return patience
	}
	return max(patience, min(patience<<min(f.overtaken, 4), timing.AttemptTimeout+timing.RenewInterval*3/2))
}

// handle answers an event. A guardian that has left ends the candidacy, as the end of
// Run's context does.
func (f *following) handle(e event) {
	switch e := e.(type) {
	case stopWanted:
		f.withdraw()
		f.finish()
	case guardianGone:
		f.withdraw()
		if f.ctx.Err() == nil {
			f.result = abandoned(e.err)
		}
		f.finish()
	case answer:
		if f.answered(e) {
			f.win()
		}
	case locks.Event:
		f.hear(e)
	case watchOver:
		f.watchEnded(e.err)
		if e.err != nil {
			f.refresh, f.blind, f.refreshAt = true, true, time.Now().Add(f.currentStagger())
		}
	case holderDead:
		f.observer.ProvenDead(f.deathProbe.about, time.Now())
	case stepDownRequest:
		e.over <- e.afterTerm(f.workWatchdog.Load()) // the term ended while it was asked to
	default:
		f.run.handle(e)
	}
}

// win begins the term that was won, or gives the lock back if Run is to return.
func (f *following) win() {
	f.endDeathProbe()
	if f.ctx.Err() != nil {
		_ = f.release(0, "", locks.Handover{}, false) // what it could not do, it has noted
		f.finish()
		return
	}
	f.acquisition.pending = f.writes.amending(f.acquisition.won())
	f.begin(f.acquisition)
}

// hear handles an event of the watch.
func (f *following) hear(e locks.Event) {
	now := time.Now()
	if !f.observeEvent(e, now) {
		return // a watch that lives is no sign of the lock's holder, nor of the API behind it
	}
	f.outage.Answered(now)
	f.gaps = [2]time.Duration{f.gaps[1], now.Sub(f.heard)}
	f.news(now)
	f.publishHolder()
}

// publishHolder publishes who holds the lock, if that has changed. This candidate may
// see its own acquisition before the answer comes, which begins a term.
func (r *run) publishHolder() {
	holder, details := r.observer.Holder()
	delete(r.noShows, holder)
	before := r.board.read()
	if before.Holder == holder && before.HolderZone == details.Zone || holder == r.config.Candidate.Identity {
		return
	}
	t := r.board.publish(status.ChangeFollowing, nil, func(s *Status) { s.Holder, s.HolderZone = holder, details.Zone })
	if before.Holder != holder {
		r.log.Info("following", "holder", holder, "zone", details.Zone, "at", t.At)
	}
}

// withdraw ends a candidacy. A write on its way may win the lock: it is waited
// for, and the lock given back, since nobody will lead. So is one that was kept
// after a term, unless it runs out in any case.
func (f *following) withdraw() {
	defer f.endDeathProbe()
	writes, settled := f.requester.drain(f.patience())
	won, unknown := false, false
	if n := len(f.writes); n > 0 && f.unsure { // no read has told what became of the last one
		unknown = time.Since(f.writes[n-1].sent.awake) < f.config.Timing.LeaseDuration
	}
	for _, a := range writes {
		if a.op != opAcquire || a.conflict() {
			continue
		}
		if won, unknown = won || a.err == nil, unknown || a.err != nil; a.err == nil {
			f.observe(a.snapshot, time.Now())
		}
	}
	switch kept := f.keptTerm; {
	case won, unknown:
		_ = f.release(0, "", locks.Handover{}, !won) // what it could not do, it has noted
	case kept != nil && settled && time.Since(kept.sent.awake) < f.config.Timing.LeaseDuration:
		_ = f.release(kept.term.Token, kept.trace, locks.Handover{}, true)
	}
}
