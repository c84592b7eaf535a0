// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
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
