// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
)

// giveUp releases the lock after the work has returned, unless the work took too long or
// somebody else has the lock. A candidate that lost the term but not the lock, and
// campaigns again, keeps its name on the record, because that lets it come back, unless it is barred.
func (l *leadership) giveUp(again bool) {
	settled := l.settle()
	if l.overrun || !settled || !l.observer.Holds() {
		return
	}
	if again && l.inSilence() && l.observer.Newest().Barred == "" {
		l.keptTerm = l
		return
	}
	handover := l.handover()
	if l.released = l.release(l.term.Token, l.trace, l.last.sent, handover, false); !l.released {
		return
	}
	// A candidate that gives a term up leaves the next one to others, if there are any.
	l.holdOff = time.Now().Add(handover.Precedence + l.config.Timing.RenewInterval)
	l.report.released(l.term, l.cause, handover.To)
}

// settle cancels reads and lost writes, and waits for the answers to the others. It cancels writes that take
// too long: whether they landed is then unknown. If a write may land later nevertheless, it closes the
// connections, so that at least no more of it is sent (S12), and nothing is to be released (S6).
func (r *run) settle() bool {
	for _, f := range r.exchange.flights {
		if !f.writes() || f.lost {
			f.cancel()
		}
	}
	settled := func() bool { return len(r.exchange.flights) == 0 }
	if r.requester.await(r.exchange.patience(true), settled, r.observeAnswer) {
		return true
	}
	r.report.log.Info("a write that was given up may still land: the lock is not released, and the lease runs out if it is held")
	if closeAll := r.config.Lock.Capabilities().CloseConnections; closeAll != nil {
		closeAll()
	}
	return false
}

// release gives the lock up if this very candidate holds it, by compare-and-swap on a
// version whose holder it is (S5). A zero token says that nobody ever led. If it is unsure
// who holds the lock, it reads first. It begins tries for as long as the term could be
// trusted, or until one is refused. It ends when a LeaseDuration has passed since held, because
// somebody else may have had the lock since, and a record of this candidate's own may have been put
// back. It reports whether it knows that the lock was released.
func (r *run) release(token uint64, trace string, held moment, handover locks.Handover, unsure bool) bool {
	timing := r.config.Timing
	deadline := time.Now().Add(timing.RenewDeadline)
	delays := r.newPauses(timing.RenewInterval)
	limit, doubt, lost, tried := max(r.exchange.patience(false), r.exchange.patience(true)), time.Time{}, false, uint64(0)
	if unsure {
		doubt = time.Now()
	}
	for time.Now().Before(deadline) && r.clock.now().sinceAtMost(held) < timing.LeaseDuration {
		base := r.observer.Newest()
		ask := request{op: opRead, since: doubt, asOf: base.Version, limit: limit}
		if !unsure {
			if r.observer.Unproven(time.Now()) {
				return false // somebody who may still lead has not given it up
			}
			if !r.observer.Holds() {
				// An earlier try may have landed without an answer: nobody else could
				// have the lock so soon if it had not.
				return token != 0 && (base.Record.Details.Released == token || lost && base.Record.Holder != "")
			}
			if lost && (base.Partial || r.observer.Exact() && base.Version.Number != tried) && (token == 0 || base.Record.Details.Released != token) {
				return false // that try may have freed the lock or the part that is gone, and another may lead
			}
			tried = base.Version.Number
			ask.op, ask.base, ask.record = opRelease, base.Version, rules.Release(base.Record, token, trace, handover, time.Now())
		}
		r.requester.send(r.requests, ask)
		own, a := r.exchange.newest, answer{}
		answered := func(came answer) {
			r.observeAnswer(came)
			if came.flight == own {
				a = came
			}
		}
		if !r.requester.await(limit*3/2, func() bool { return a.flight != nil }, answered) {
			return false // something does not obey its context: the request's own limit has passed
		}
		switch {
		case a.op == opRelease && a.err == nil:
			return true
		case isRefusal(a.err): // and the next would be, too
			return false
		}
		unsure, doubt = a.op == opRelease || a.err != nil, time.Time{}
		if a.failed() {
			lost = lost || a.op == opRelease
			doubt = a.sent.awake                                   // its connection may be dead
			limit = max(limit, min(2*limit, timing.RenewDeadline)) // the server may be slow
			_ = sleep.For(r.requests, delays.next())               // the loop asks next whether the requests go on
		}
	}
	return false
}

// observeAnswer handles an answer at the end of a term, which may have canceled the request. That is
// no problem.
func (r *run) observeAnswer(a answer) {
	now := time.Now()
	if !errors.Is(a.err, context.Canceled) {
		r.report.answer(a)
	}
	switch {
	case a.err != nil:
	case a.op == opRead:
		r.observeRead(a, false, now)
	default:
		r.observe(a.snapshot, now)
	}
}
