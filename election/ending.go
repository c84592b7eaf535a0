// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
)

// stopping is the state in which a stop is wanted. The leader renews while the work stops.
type stopping struct{ *leadership }

func (s stopping) proceed() time.Time {
	if s.over() {
		s.conclude()
		return time.Time{}
	}
	return s.keep(s.awaitStop)
}

// awaitStop checks whether the work has stopped in time.
func (l *leadership) awaitStop(now time.Time) time.Time {
	l.stayOn("")
	if !l.overrun && !now.Before(l.stopBy) {
		l.reportOverrun()
	}
	switch {
	case l.over():
		return now
	case l.overrun:
		return now.Add(time.Hour)
	}
	return l.stopBy
}

// stopWork begins a stop in good order.
func (l *leadership) stopWork(cause error) {
	if l.cause != nil {
		return
	}
	l.enter(stopping{l})
	l.endTerm(cause, l.config.Timing.StopTimeout)
	if !l.working() {
		l.adoption.end(l.cause)
	}
}

func (l *leadership) endTerm(cause error, patience time.Duration) {
	l.endWork(cause)
	stopBy := time.Now().Add(patience)
	if l.cause != nil {
		l.stopBy = rules.Earliest(l.stopBy, stopBy)
		return
	}
	l.cause, l.stopBy = cause, stopBy
	l.report.stopping(l.term, cause)
}

// reportOverrun reports that the work did not stop in time, or says that part of it may go on. From
// now on the elector renews nothing, and will release nothing (S5). So it answers at once those that
// asked for the end.
func (l *leadership) reportOverrun() {
	l.overrun = true
	l.observer.Forfeit()
	l.background.Go(l.watchdog.tell) // it may have been told already
	l.report.overran(l.term, l.watchdog.cause(l.cause))
	l.answerResignations()
}

// conclude ends a term once its work and its guardian have returned: it gives the lock
// up if it may, and goes on to the next state.
func (l *leadership) conclude() {
	if l.returned {
		l.report.stopped(l.cause)
	}
	l.report.waiting(l.waitsFor())
	l.report.unhealthy(l.fitness.problem)
	l.stayOn("")
	l.report.termOver(l.cause)
	l.trust.end()
	again, err := l.outcome()
	l.giveUp(again)
	if errors.Is(l.cause, ErrUnhealthy) {
		l.fitness.backAt = time.Now().Add(2 * l.config.Timing.LeaseDuration)
	}
	l.answerResignations()
	if l.adoption = (adoption{}); again {
		l.follow()
	} else {
		l.finish(err)
	}
}

// outcome returns whether to campaign again, or else what Run returns.
func (l *leadership) outcome() (again bool, err error) {
	switch {
	case l.fatal != nil:
		return false, l.fatal
	case errors.Is(l.cause, ErrReturned), l.unfinished():
		return false, l.workErr
	case l.ctx.Err() != nil:
		return false, l.workError()
	case l.isLost() && l.config.StopAtLoss:
		return false, l.cause
	}
	if err := l.workError(); err != nil {
		l.report.log.Error(err, "the work returned an error after its term")
	}
	return true, nil
}

// workError is what the work returned, unless that is the end of its context.
func (l *leadership) workError() error {
	if errors.Is(l.workErr, context.Canceled) || errors.Is(l.workErr, l.cause) {
		return nil
	}
	return l.workErr
}

// lost is the state of a term that is no longer trusted: nothing extends its trust.
type lost struct{ *leadership }

func (s lost) proceed() time.Time {
	if s.over() {
		s.conclude()
		return time.Time{}
	}
	return s.due(time.Now())
}

func (s lost) due(now time.Time) time.Time {
	until := s.awaitStop(now)
	s.keepWatching(now)
	return s.watcher.earlier(rules.Earliest(until, s.returnName(now)))
}

// handle answers an event. News of the lock changes nothing about the term.
func (s lost) handle(e event) {
	switch e := e.(type) {
	case answer:
		switch {
		case e.op != opRenew, errors.Is(e.err, context.Canceled): // the loss has canceled it
			return
		case e.conflict(): // somebody may have emptied the record once more
			s.exchange.refused(e)
			return
		case e.err == nil:
			s.observe(e.snapshot, time.Now())
		}
		s.returns.Made(time.Now())
	case locks.Event:
		s.observeEvent(e, time.Now())
	default:
		s.leadership.handle(e)
	}
}

// isLost reports whether the term is lost already.
func (l *leadership) isLost() bool {
	_, is := l.state.(lost)
	return is
}

// lose ends a term that is no longer trusted. A stop in good order that is under way
// becomes a loss, with its own time to stop.
func (l *leadership) lose(cause error) {
	if !l.isLost() {
		l.enter(lost{l})
	}
	finish := l.trust.revoke()
	l.endWork(cause) // before anything that may block
	finish()
	l.adoption.end(cause)
	l.cancelAll()
	l.report.untrusted()
	l.endTerm(cause, l.watchdog.graceLeft())
}

func (r *run) trustRanOut() error {
	return fmt.Errorf("%w within the RenewDeadline of %v", errUnanswered, r.config.Timing.RenewDeadline)
}

// returnName puts the holder's name back on a record that somebody emptied, while the work
// still stops, because client-go takes an empty record at once. The term is over
// nevertheless, and is no longer trusted. It returns when to look again.
func (l *leadership) returnName(now time.Time) time.Time {
	newest, later := l.observer.Newest(), now.Add(time.Hour)
	if !newest.Version.Exists() || newest.Record.Holder != "" || !l.observer.MayReclaim() {
		return later // perhaps not yet: the watch may still show that nobody else had the lock
	}
	if l.exchange.isStillNewest() || l.overrun || l.exchange.writing() || l.exchange.full() {
		return later
	}
	if due := l.returns.Due(); now.Before(due) { // somebody empties it again and again
		return due
	}
	l.renew(newest.Record, l.config.Timing.AttemptTimeout)
	return later
}

// giveUp releases the lock after the work has returned, unless the work took too long or
// somebody else has the lock. A candidate that lost the term but not the lock, and
// campaigns again, keeps its name on the record, because that lets it come back, unless it is barred.
func (l *leadership) giveUp(again bool) {
	settled := l.settle()
	if l.overrun || !settled || !l.observer.Holds() {
		return
	}
	// The lock may still be this candidate's if no news came for too long, or if somebody emptied the record.
	if lost := (*lostError)(nil); again && errors.As(l.cause, &lost) && lost.holder == "" && l.observer.Newest().Barred == "" {
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
	if r.takeAnswers(r.exchange.patience(true), settled, r.observeAnswer) {
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
			released := token != 0 && base.Record.Details.Released == token
			if r.observer.Unproven(time.Now()) {
				return false // somebody who may still lead has not given it up
			}
			if !r.observer.Holds() || token == 0 && base.Record.Details.Token != 0 { // of a term, which somebody put back
				// An earlier try may have landed without an answer: nobody else could
				// have the lock so soon if it had not.
				return released || token != 0 && lost && base.Record.Holder != ""
			}
			if lost && (base.Partial || r.observer.Exact() && base.Version.Number != tried) && !released {
				return false // that try may have freed the lock or the part that is gone, and another may lead
			}
			tried = base.Version.Number
			ask.op, ask.base, ask.record = opRelease, base.Version, rules.Release(base.Record, token, trace, handover, time.Now())
		}
		r.send(ask)
		own, a := r.exchange.newest, answer{}
		answered := func(came answer) {
			r.observeAnswer(came)
			if came.flight == own {
				a = came
			}
		}
		if !r.takeAnswers(limit*3/2, func() bool { return a.flight != nil }, answered) {
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
			doubt = a.sent.awake // its connection may be dead
			if time.Since(doubt) >= limit {
				limit = max(limit, min(2*limit, timing.RenewDeadline)) // the server may be slow
			}
			_ = sleep.For(r.requests, delays.next()) // the loop asks next whether the requests go on
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
