// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
	"github.com/zonelect/zonelect/locks"
)

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
	l.requester.cancel()
	l.report.untrusted()
	l.endTerm(cause, l.watchdog.graceLeft())
}

func (r *run) trustRanOut() error {
	return &lostError{reason: fmt.Sprintf("no renewal was acknowledged within the RenewDeadline of %v", r.config.Timing.RenewDeadline), unanswered: true}
}

// inSilence reports whether the term was lost but perhaps not the lock, because no news
// came for too long or somebody emptied the record.
func (l *leadership) inSilence() bool {
	var lost *lostError
	return errors.As(l.cause, &lost) && lost.holder == ""
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
