// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zonelect/zonelect/locks"
)

// adoption is a guardian's part in one term.
type adoption struct {
	permissions chan locks.Permission
	done        chan adoptionOver
	end         context.CancelCauseFunc // has the guardian finish
}

// adopting is the state in which the lock is held and its guardian does not let the
// work begin yet.
type adopting struct{ *leadership }

func (s adopting) proceed() time.Time { return s.keep(s.yieldIfUnwanted) }

func (s adopting) handle(e event) {
	if e, is := e.(workPermission); is {
		s.permitWork(e.Permission)
		return
	}
	s.leadership.handle(e)
}

// startAdoption asks the guardian to adopt the term. Without a guardian the work begins.
func (l *leadership) startAdoption() {
	if l.guardian == nil {
		l.startWork()
		return
	}
	ctx, end := context.WithCancelCause(context.WithValue(l.requests, termKey{}, l.term))
	l.adoption = adoption{permissions: make(chan locks.Permission, 1), done: make(chan adoptionOver, 1), end: end}
	done, clear := l.adoption.done, latestTo(l.adoption.permissions)
	l.enter(adopting{l})
	l.report.adopting(l.term, false)
	l.background.Go(func() {
		err := l.guardian.Adopt(ctx, locks.Term{Holder: l.term.Holder, Trust: l.term.TrustedFor}, clear)
		early := ctx.Err() == nil
		if early { // at once, even if the elector's goroutine is busy
			l.endWork(unguarded(err))
		}
		done <- adoptionOver{err, early}
	})
}

// permitWork lets the work begin if the guardian permits it.
func (s adopting) permitWork(p locks.Permission) {
	switch {
	case !p.Granted:
		s.report.waiting(p.Why)
	case s.trust.left() > 0:
		s.report.waiting("")
		s.startWork()
	}
}

// unguarded returns why a term ends after its guardian has returned.
func unguarded(err error) error {
	err = cmp.Or(err, errLeft)
	if !errors.Is(err, ErrLost) {
		err = fmt.Errorf("%w: %w", ErrLost, err)
	}
	return err
}

// adoptionEnded handles the return of Adopt. Unless that was to finish, the term is lost, even if its work is to
// stop already.
func (l *leadership) adoptionEnded(e adoptionOver) {
	l.adoption.done = nil
	switch {
	case e.early:
		l.lose(unguarded(e.err))
	case e.err != nil && !errors.Is(e.err, l.cause) && !errors.Is(e.err, context.Canceled):
		l.report.log.Error(e.err, "the lock's guardian could not finish after the term")
	}
}
