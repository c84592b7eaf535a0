// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
)

// leading is the state in which the work runs.
type leading struct{ *leadership }

func (s leading) proceed() time.Time { return s.keep(s.yieldIfUnwanted) }

// yieldIfUnwanted ends the term in good order if this candidate should not lead, because
// its zone is evacuated or it is unhealthy.
func (l *leadership) yieldIfUnwanted(now time.Time) time.Time {
	l.leaveEvacuatedZone()
	return l.yieldIfUnhealthy(now)
}

// startWork starts the work of a term.
func (l *leadership) startWork() {
	l.workDone = make(chan error, 1)
	l.enter(leading{l})
	l.report.leading(l.term, l.failover)
	work, done := context.WithValue(l.work, termKey{}, l.term), l.workDone
	l.watchdog.watch()
	go func() {
		err := errGoexit
		defer func() {
			if broken := recover(); broken != nil {
				panic(broken) // which ends the process: the elector must not take it for a return
			}
			l.watchdog.workReturned(err)
			done <- err
		}()
		l.failover.working()
		if l.trust.left() <= 0 || l.work.Err() != nil { // this process did not run for so long
			err = nil
			return
		}
		err = l.lead(work, l.term)
	}()
}

// workReturned handles the return of the work. The work returned by itself if nobody asked
// it to stop. The guardian's part ends with the work.
func (l *leadership) workReturned(err error) {
	l.workErr, l.workDone, l.returned = err, nil, true
	switch {
	case l.cause != nil:
	case l.work.Err() != nil: // the work learned of it before this loop did
		l.lose(context.Cause(l.work))
	case l.trust.left() <= 0:
		l.lose(l.trustRanOut())
	default:
		l.stopWork(ErrReturned)
	}
	if l.unfinished() {
		l.workRemains.Store(true)
	}
	if (l.unfinished() || l.watchdog.wasLate()) && !l.overrun {
		l.reportOverrun()
	}
	l.adoption.end(l.cause)
}

// unfinished reports whether part of the work may go on although the work has returned.
func (l *leadership) unfinished() bool { return errors.Is(l.workErr, ErrUnfinished) }

// verifying is the state in which this candidate holds a lock whose record it created where
// there was none. Somebody else may have had the lock before and may still lead.
type verifying struct{ *leadership }

func (s verifying) proceed() time.Time {
	return s.keep(func(now time.Time) time.Time { return rules.Earliest(s.yieldIfUnwanted(now), s.verify(now)) })
}

// startVerifying keeps the lock, and lets nothing begin yet.
func (l *leadership) startVerifying() {
	l.unverified = true
	l.enter(verifying{l})
	l.report.adopting(l.term, true)
}

// verify goes on once nobody else can lead, and returns when to look again at the
// latest.
func (l *leadership) verify(now time.Time) time.Time {
	if l.cause != nil {
		return now.Add(time.Hour)
	}
	if l.observer.Unproven(now) {
		l.report.waiting(rules.PastUnknown)
		return l.observer.ProvenAt()
	}
	l.unverified = false
	l.report.waiting("")
	l.startAdoption()
	return now.Add(time.Hour)
}
