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

// ErrWithdrawn is the cause of a term's end if the lock's guardian withdrew the
// permission to campaign.
var ErrWithdrawn = errors.New("leadership withdrawn")

// errLeft: a guardian that returns without an error no longer guards the lock either.
var errLeft = errors.New("the lock's guardian has left")

// startGuardian starts the guardian, if there is one.
func (r *run) startGuardian() {
	guardian := r.config.Lock.Capabilities().Guardian
	if guardian == nil {
		r.permission.Granted = true
		return
	}
	r.guardian = guardian
	r.permissions = make(chan locks.Permission, 1)
	r.guardianLeft = make(chan error, 1)
	clear := latestTo(r.permissions)
	r.background.Go(func() { r.guardianLeft <- guardian.Attend(r.watching, clear) })
}

// latestTo returns a function that puts a value into a channel with room for one. It
// replaces a value that has not been read, and never blocks, whoever else calls it.
func latestTo[T any](box chan T) func(T) {
	return func(word T) {
		for {
			select {
			case box <- word:
				return
			case <-box:
			}
		}
	}
}

// setPermission notes whether this candidate may campaign.
func (r *run) setPermission(c locks.Permission) {
	r.permission = c
	r.report.waiting(r.waitsFor())
}

// waitsFor is what must happen before this candidate may campaign; empty if nothing must, or if
// that is not known.
func (r *run) waitsFor() string { return cmp.Or(r.observer.Newest().Barred, r.permission.Why) }

// stopIfWithdrawn ends a term in good order if this candidate may not even campaign.
func (l *leadership) stopIfWithdrawn() {
	if !l.permission.Granted || l.observer.Newest().Barred != "" {
		l.stopWork(fmt.Errorf("%w: %s", ErrWithdrawn, l.waitsFor()))
	}
}

// abandoned is the error of Run after its guardian has returned.
func abandoned(err error) error {
	return fmt.Errorf("guard the lock: %w", cmp.Or(err, errLeft))
}

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

// handle lets the work begin if the guardian permits it.
func (s adopting) handle(e event) {
	p, is := e.(workPermission)
	switch {
	case !is:
		s.leadership.handle(e)
	case !p.Granted:
		s.report.waiting(p.Why)
	case s.trust.left() > 0:
		s.report.waiting("")
		s.startWork()
	}
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
