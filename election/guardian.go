// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"

	"github.com/zonelect/zonelect/locks"
)

// ErrWithdrawn says that the lock's guardian wants no leader of this kind any more.
var ErrWithdrawn = errors.New("leadership withdrawn")

// errLeft: a guardian that returns without an error still guards no more.
var errLeft = errors.New("the lock's guardian has left")

// attend starts the guardian, if there is one.
func (r *run) attend() {
	guardian, ok := r.config.Lock.(locks.Guardian)
	if !ok {
		r.clearance.Granted = true
		return
	}
	r.guardian = guardian
	r.clearances = make(chan locks.Permission, 1)
	r.left = make(chan error, 1)
	clear := latestTo(r.clearances)
	r.beside.Go(func() { r.left <- guardian.Attend(r.watching, clear) })
}

// latestTo returns a function that puts a word into a channel with room for
// one, in the place of one that has not been read. It never blocks.
func latestTo[T any](box chan T) func(T) {
	return func(word T) {
		select {
		case <-box:
		default:
		}
		box <- word
	}
}

// cleared takes in whether this candidate may campaign.
func (r *run) cleared(c locks.Permission) {
	r.clearance = c
	r.waiting(c.Why)
}

// obey ends a term in good order if this candidate may not even campaign.
func (r *run) obey(l *leadership) {
	if !r.clearance.Granted {
		r.stopWork(l, fmt.Errorf("%w: %s", ErrWithdrawn, r.clearance.Why))
	}
}

// waiting publishes what is waited for, if that is something else than before.
func (r *run) waiting(why string) {
	if r.board.read().Waiting == why {
		return
	}
	r.board.publish(ChangeWaiting, nil, func(s *Status) { s.Waiting = why })
	if why != "" {
		r.log.Info("waiting", "for", why)
	}
}

// abandoned is the error of Run when its guardian has left.
func abandoned(err error) error {
	if err == nil {
		err = errLeft
	}
	return fmt.Errorf("guard the lock: %w", err)
}

// adoption is a guardian's part in one term.
type adoption struct {
	clearances chan locks.Permission
	done       chan error // gets what Adopt returned
	end        context.CancelCauseFunc
	ended      bool
}

// adopt has the guardian adopt the term, if there is one; else the work begins.
func (r *run) adopt(l *leadership) {
	if r.guardian == nil {
		r.startWork(l)
		return
	}
	ctx, end := context.WithCancelCause(context.WithValue(r.requests, termKey{}, l.term))
	l.adoption = adoption{clearances: make(chan locks.Permission, 1), done: make(chan error, 1), end: end}
	done, clear := l.adoption.done, latestTo(l.adoption.clearances)
	r.board.publish(ChangeAdopting, nil, func(s *Status) {
		s.State, s.Term, s.Holder, s.HolderZone = StateAdopting, l.term, l.term.Holder, l.term.Zone
	})
	r.beside.Go(func() {
		err := r.guardian.Adopt(ctx, locks.Term{Holder: l.term.Holder, Trust: l.term.TrustedFor}, clear)
		lost := ctx.Err() == nil
		done <- err
		if lost { // at once, whatever keeps the elector's goroutine
			l.endWork(unguarded(err))
		}
	})
}

// clearedTerm takes in whether the work of a term may begin.
func (r *run) clearedTerm(l *leadership, c locks.Permission) {
	switch {
	case l.cause != nil || l.working:
	case !c.Granted:
		r.waiting(c.Why)
	case l.trust.left() > 0:
		r.waiting("")
		r.startWork(l)
	}
}

// unguarded is why a term ends of which the guardian has returned.
func unguarded(err error) error {
	if err == nil {
		err = errLeft
	}
	if !errors.Is(err, ErrLost) {
		err = fmt.Errorf("%w: %w", ErrLost, err)
	}
	return err
}

// catchUp takes in that Adopt has returned, if it has: the work may know before.
func (r *run) catchUp(l *leadership) {
	select {
	case err := <-l.adoption.done:
		r.unadopted(l, err)
	default:
	}
}

// unadopted takes in that Adopt has returned.
func (r *run) unadopted(l *leadership, err error) {
	l.adoption.ended = true
	if l.cause != nil {
		if err != nil && !errors.Is(err, l.cause) && !errors.Is(err, context.Canceled) {
			r.log.Error(err, "the lock's guardian could not finish after the term")
		}
		return
	}
	r.loseTerm(l, unguarded(err))
}
