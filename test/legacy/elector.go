// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

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
	"github.com/zonelect/zonelect/test/events"
)

// acquireJitter is the share of a retry period by which a follower's polls are
// further apart, at most.
const acquireJitter = 1.2

var errHeld = errors.New("another holds the lock")

// elector campaigns as client-go did from 0.17 to 0.26, when it had locks on
// annotations. Today's LeaderElector cannot stand in for it: it judges by the
// record's lease duration and not by its own, renews without reading first,
// and reads before it releases.
type elector struct {
	lock                   lock
	lease, deadline, retry time.Duration
	release                bool // when it ends: ReleaseOnCancel
	print                  func(events.Event)
	work                   func(context.Context, term)

	sighting
	told string // the holder that was printed last
}

// sighting is what an elector knows.
type sighting struct {
	record resourcelock.LeaderElectionRecord // read or written last
	raw    []byte                            // read last, to tell a change by
	at     time.Time                         // when the record was first seen so, or written
}

// held reports whether another than identity may be leading: its record was
// seen to change less than a lease ago, and the lease is the candidate's own,
// whatever the record says.
func (s *sighting) held(identity string, lease time.Duration, now time.Time) bool {
	holder := s.record.HolderIdentity
	return holder != "" && holder != identity && s.at.Add(lease).After(now)
}

// read takes note of what the lock says.
func (s *sighting) read(r *resourcelock.LeaderElectionRecord, raw []byte) {
	if !bytes.Equal(s.raw, raw) {
		s.record, s.raw, s.at = *r, raw, time.Now()
	}
}

// wrote takes note of what the lock was made to say.
func (s *sighting) wrote(r resourcelock.LeaderElectionRecord) {
	s.record, s.at = r, time.Now()
}

// run campaigns, leads, and campaigns again under the same identity, until ctx
// ends. A real program ends when it has lost its lease, and starts again.
func (e *elector) run(ctx context.Context) {
	e.print(events.Event{Event: "started"})
	for ctx.Err() == nil {
		e.sighting, e.told = sighting{}, ""
		if t, ok := e.acquire(ctx); ok {
			e.lead(ctx, t)
		}
	}
}

// acquire polls until the lock is won, or ctx has ended.
func (e *elector) acquire(ctx context.Context) (won term, ok bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wait.JitterUntilWithContext(ctx, func(ctx context.Context) {
		t, err := e.attempt(ctx)
		e.tell()
		e.warn(ctx, err)
		if err == nil {
			won, ok = t, true
			cancel()
		}
	}, e.retry, acquireJitter, true)
	return won, ok
}

// lead works and renews until one of them ends. When ctx ends the work stops
// first and the lock is given up thereafter, as with controller-runtime. When
// the lease is lost the lock is given up first, if it is to be: that was so.
func (e *elector) lead(ctx context.Context, t term) {
	renewing, stopRenewing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRenewing()
	working, stopWork := context.WithCancelCause(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		e.work(working, t)
		stopRenewing()
	}()
	e.renew(renewing)
	if e.release {
		e.giveUp()
	}
	stopWork(election.ErrLost)
	<-stopped
}

// renew returns when no attempt has worked for the deadline, or ctx has ended.
func (e *elector) renew(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		err := wait.PollUntilContextTimeout(ctx, e.retry, e.deadline, true, func(ctx context.Context) (bool, error) {
			_, err := e.attempt(ctx)
			e.warn(ctx, err)
			return err == nil, nil
		})
		e.tell()
		if err != nil {
			cancel()
		}
	}, e.retry)
}

// attempt takes or renews the lock, if it is not another's.
func (e *elector) attempt(ctx context.Context) (term, error) {
	now := metav1.Now()
	next := resourcelock.LeaderElectionRecord{
		HolderIdentity: e.lock.Identity(), LeaseDurationSeconds: int(e.lease / time.Second),
		RenewTime: now, AcquireTime: now,
	}
	old, raw, err := e.lock.Get(ctx)
	if apierrors.IsNotFound(err) {
		if err := e.lock.Create(ctx, next); err != nil {
			return term{}, err
		}
		e.wrote(next)
		return term{token: e.lock.token(), cause: election.CauseAbsent}, nil
	}
	if err != nil {
		return term{}, err
	}
	e.read(old, raw)
	if e.held(e.lock.Identity(), e.lease, now.Time) {
		return term{}, errHeld
	}
	next.LeaderTransitions = old.LeaderTransitions
	if e.leads() {
		next.AcquireTime = old.AcquireTime
	} else {
		next.LeaderTransitions++
	}
	t := term{cause: e.cause(), previous: old.HolderIdentity}
	if err := e.lock.Update(ctx, next); err != nil {
		return term{}, err
	}
	e.wrote(next)
	t.token = e.lock.token()
	return t, nil
}

// leads reports whether the record names this candidate.
func (e *elector) leads() bool { return e.record.HolderIdentity == e.lock.Identity() }

// cause is why the lock that was just read may be taken.
func (e *elector) cause() election.Cause {
	switch {
	case len(e.raw) == 0:
		return election.CauseAbsent
	case e.record.HolderIdentity == "":
		return election.CauseReleased
	case e.leads():
		return election.CauseReclaimed
	}
	return election.CauseExpired
}

// giveUp empties the record, if it names this candidate and has not changed
// since it was read or written.
func (e *elector) giveUp() {
	if !e.leads() {
		return
	}
	now := metav1.Now()
	free := resourcelock.LeaderElectionRecord{
		LeaderTransitions: e.record.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
	}
	ctx := context.Background() // the client's timeout bounds it
	if err := e.lock.Update(ctx, free); err != nil {
		e.warn(ctx, err)
		return
	}
	e.wrote(free)
	e.print(events.Event{Event: "released"})
}

// tell prints who leads, when that has changed.
func (e *elector) tell() {
	now := e.record.HolderIdentity
	if now != "" && now != e.told && !e.leads() {
		e.print(events.Event{Event: "following", Leader: now})
	}
	e.told = now
}

// warn prints what went wrong, unless it belongs to the game.
func (e *elector) warn(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil || errors.Is(err, errHeld) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return
	}
	e.print(events.Event{Event: "error", Error: err.Error()})
}
