// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"cmp"
	"errors"
	"fmt"

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
