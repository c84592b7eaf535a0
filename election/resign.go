// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"

	"github.com/zonelect/zonelect/election/status"
)

var (
	// ErrNotLeading says that there is no term to end.
	ErrNotLeading = errors.New("not leading")
	// ErrNotReleased says that a term has ended without a release: the lease runs out,
	// somebody else has the lock, or this candidate will reclaim it.
	ErrNotReleased = errors.New("the lock was not released")
)

// resignation is a call of Resign. It gets the answer.
type resignation chan error

// Resign ends the term in good order: the work stops, the lock is released, and this
// candidate leaves the lock to others for one RenewInterval. Resign returns nil once
// the lock has been released. Otherwise it returns [ErrNotLeading] if there is no term,
// an error that wraps [ErrNotReleased] and says why, or the cause of ctx's end. It does
// not wait for work that has not stopped in time.
//
// The work itself should return instead of calling Resign. If it calls Resign with its own
// context, that ends with the term, and so does the call. With any other context the work
// waits for itself to return, until it is late.
func (e *Elector) Resign(ctx context.Context) error {
	ended, _ := e.ended.Load().(chan struct{})
	if s := e.Status().State; s == status.StateIdle || s == status.StateFollower {
		return ErrNotLeading
	}
	answer := make(resignation, 1)
	for loop := e.resignations; ; loop, ended = nil, nil { // first give it to the loop, then wait
		select {
		case loop <- answer:
		case <-ended:
			return ErrNotLeading
		case err := <-answer:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// resign handles a call of Resign during a term.
func (l *leadership) resign(r resignation) {
	l.stopWork(ErrResigned)
	l.resignations = append(l.resignations, r)
	if l.overrun { // there is nothing to wait for
		l.answerResignations()
	}
}

// answerResignations tells every caller of Resign whether the lock was released.
func (l *leadership) answerResignations() {
	var err error
	switch problem := l.report.problem(); {
	case l.released:
	case l.overrun:
		err = errors.New("the work has not stopped in time, or part of it goes on, so that the lease runs out")
	case !l.observer.Holds():
		err = errors.New("it was not this candidate's any more")
	case problem != nil:
		err = problem
	default:
		err = errors.New("no release has been confirmed")
	}
	if err != nil {
		err = fmt.Errorf("%w: %w: %w", ErrNotReleased, err, l.cause)
	}
	for _, answer := range l.resignations {
		answer <- err
	}
	l.resignations = nil
}
