// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package legacyelectors

import (
	"bytes"
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/test/kit/events"
)

// AcquireJitter is the largest share of a retry period that is added between a
// follower's polls.
const AcquireJitter = 1.2

var errHeld = errors.New("another holds the lock")

// Elector campaigns as client-go did from 0.17 to 0.26, when it had locks on
// annotations. Today's LeaderElector cannot replace it: it goes by the record's
// lease duration and not by its own, renews without reading first, and reads
// before it releases.
type Elector struct {
	Lock                   Lock
	Lease, Deadline, Retry time.Duration
	Release                bool // at its end: ReleaseOnCancel
	Print                  func(events.Event)
	Work                   Work

	sighting
}

// sighting is what an elector knows of the record.
type sighting struct {
	record resourcelock.LeaderElectionRecord // read or written last
	raw    []byte                            // read last, to detect a change
	at     time.Time                         // when the record was first seen like this, or written
}

// wrote notes what was written to the lock.
func (s *sighting) wrote(r resourcelock.LeaderElectionRecord) {
	s.record, s.at = r, time.Now()
}

// Run campaigns, leads, and campaigns again under the same identity, until ctx
// ends. A real program exits when it has lost its lease, and starts again.
func (e *Elector) Run(ctx context.Context) {
	e.Print(events.Event{Event: "started"})
	for ctx.Err() == nil {
		e.sighting = sighting{}
		if e.acquire(ctx) {
			e.lead(ctx)
		}
	}
}

// acquire polls until the lock is won, or ctx has ended.
func (e *Elector) acquire(ctx context.Context) (won bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wait.JitterUntilWithContext(ctx, func(ctx context.Context) {
		if won = e.attempt(ctx); won {
			cancel()
		}
	}, e.Retry, AcquireJitter, true)
	return won
}

// lead works and renews until one of them ends. When ctx ends the work stops
// first and the lock is released after it, as with controller-runtime. When the
// lease is lost the lock is released first, if at all: that is how client-go
// did it.
func (e *Elector) lead(ctx context.Context) {
	renewing, stopRenewing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRenewing()
	working, stopWork := context.WithCancelCause(ctx)
	stopped, token := make(chan struct{}), e.Lock.token()
	go func() {
		defer close(stopped)
		e.Work(working, token)
		stopRenewing()
	}()
	e.renew(renewing)
	if e.Release {
		e.giveUp()
	}
	stopWork(election.ErrLost)
	<-stopped
}

// renew returns when no attempt has succeeded for the deadline, or ctx has
// ended.
func (e *Elector) renew(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if wait.PollUntilContextTimeout(ctx, e.Retry, e.Deadline, true, func(ctx context.Context) (bool, error) {
			return e.attempt(ctx), nil
		}) != nil {
			cancel()
		}
	}, e.Retry)
}

// attempt reports whether it has taken or renewed the lock.
func (e *Elector) attempt(ctx context.Context) bool {
	err := e.try(ctx)
	e.warn(ctx, err)
	return err == nil
}

// try takes or renews the lock, unless another candidate holds it.
func (e *Elector) try(ctx context.Context) error {
	now := metav1.Now()
	next := resourcelock.LeaderElectionRecord{
		HolderIdentity: e.Lock.Identity(), LeaseDurationSeconds: int(e.Lease / time.Second),
		RenewTime: now, AcquireTime: now,
	}
	write := e.Lock.Update
	switch old, raw, err := e.Lock.Get(ctx); {
	case apierrors.IsNotFound(err):
		write = e.Lock.Create
	case err != nil:
		return err
	default:
		if !bytes.Equal(e.raw, raw) {
			e.record, e.raw, e.at = *old, raw, time.Now()
		}
		// The lease is the candidate's own, whatever the record says.
		if e.record.HolderIdentity != "" && !e.leads() && e.at.Add(e.Lease).After(now.Time) {
			return errHeld
		}
		next.LeaderTransitions = old.LeaderTransitions
		if e.leads() {
			next.AcquireTime = old.AcquireTime
		} else {
			next.LeaderTransitions++
		}
	}
	if err := write(ctx, next); err != nil {
		return err
	}
	e.wrote(next)
	return nil
}

// leads reports whether the record names this candidate.
func (e *Elector) leads() bool { return e.record.HolderIdentity == e.Lock.Identity() }

// giveUp empties the record, if it names this candidate and has not changed
// since this candidate read or wrote it.
func (e *Elector) giveUp() {
	if !e.leads() {
		return
	}
	now := metav1.Now()
	free := resourcelock.LeaderElectionRecord{
		LeaderTransitions: e.record.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
	}
	ctx := context.Background() // the client's timeout bounds it
	err := e.Lock.Update(ctx, free)
	e.warn(ctx, err)
	if err == nil {
		e.wrote(free)
	}
}

// warn prints an error, unless it is an expected one.
func (e *Elector) warn(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil || errors.Is(err, errHeld) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return
	}
	e.Print(events.Event{Event: "error", Error: err.Error()})
}
