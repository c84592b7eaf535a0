// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package twin serves one legacy lock: client-go's old one, an election record in an
// annotation of a ConfigMap or an Endpoints object.
//
// Programs use the package by package multilock.
package twin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/annotation"
	"github.com/zonelect/zonelect/locks/multilock/internal/candidate"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// Config says what a [Lock] is made of.
type Config struct {
	candidate.Config
	// Kind of the object that has the annotation. Required.
	Kind annotation.Kind
	// LegacyName is its name, in the Lease's namespace. Empty means that of the
	// Lease.
	LegacyName string
	Mode       candidate.Mode // empty means Auto
}

// Lock is one lock out of a Lease and the lock of older programs, client-go's
// record on an annotation: both end by time, and a holder has both. It is for
// moving off the annotation locks, whose electors see nothing but their own
// object, or that and a Lease.
//
// A write puts the record on the legacy object first and on the Lease second,
// each by compare-and-swap. Only both together are a renewal: where the second
// fails, so does the write, and the next read tells how things are. What reads
// as the record is, where the two differ:
//
//   - different holders: one unknown holder, named by [UnknownHolder] and both,
//     with the longer lease. Each change on either side is a renewal of it. A
//     candidate that stopped between its two writes looks so too: all wait for
//     a lease.
//   - one is absent, or has no holder, and the other is held: held by that one, and
//     if a hand emptied the one, for the longer lease of both. The snapshot is
//     partial, so that the holder mends it at once.
//   - the same holder: what the Lease says. A renewal of ours on the legacy
//     object alone is none.
//   - the legacy object is absent and the Lease is free: nobody is known to hold
//     it, but a lease must pass, for deleted is not released.
//   - there is no Lease, and the legacy object has no record: there is no lock.
//
// The number of a version is the larger of the two, which are comparable since
// all objects of a cluster that are not events are kept in one etcd: that is
// assumed. So tokens go on growing when the Lease is used alone later. Where
// the two sides' changes are heard in another order than they were made, a number
// within this process is larger than that: tokens never are.
//
// Legacy electors up to client-go 0.26 judge an expiry by their own
// LeaseDuration: RenewInterval must suit the shortest, and the lock is not
// Exclusive.
//
// # Phases
//
// A Lock follows the phase on the Lease, and is a [locks.Guardian]:
//
//   - legacy: no candidate campaigns. A leader stops in good order and gives
//     both locks up.
//   - dual, or none on record: both locks, as above. A record that ends by time
//     cannot be sealed, so that sealed is taken for dual.
//   - clean: the Lease alone is the lock. The leader takes a candidate's record
//     off the legacy object, and leaves the object.
//
// Which phase counts is said by the very version of the Lease that a state was
// read with, and a write replaces that version of the Lease or fails. So nobody
// leads by a phase that is over: a change of phase is a new version of the Lease,
// and whoever has not heard of it has its next write refused there. The Lease is
// swapped in both phases, and alone decides among candidates. What a candidate
// that believes in dual leaves on the legacy object in phase clean is half a
// write, by which nobody leads; the next leader takes it off.
//
// Towards legacy electors, dual holds again once the leader has written both
// records: on the way back from clean that is a watch event after the change,
// or where it is cut off its RenewDeadline. A legacy elector that leads by then
// ends the term of the leader.
//
// A Lease that is gone is judged by the latest phase that this process has seen
// on it, and gets that when it is created again. A process that has seen none takes
// it for dual.
//
// A Lock keeps nothing of what it read but version numbers and that phase. It
// serves one elector at a time. All methods are safe for concurrent use.
type Lock struct {
	config   Config
	lease    *candidate.PhasedLease
	presence *candidate.PresenceKeeper
	record   *annotation.Lock
	*both
	turned chan struct{} // the phase has changed, or a write in phase dual has failed
}

var _ locks.Guardian = (*Lock)(nil)

// New returns the lock that c describes, or an error that lists what is
// wrong with c. It does no I/O.
func New(c Config) (*Lock, error) {
	c.LegacyName = cmp.Or(c.LegacyName, c.Lease.Name)
	c.Mode = cmp.Or(c.Mode, candidate.Auto)
	c.Timing = c.Timing.WithDefaults()
	c.Pod.Kind = ownerref.Pod
	t := &Lock{config: c, turned: make(chan struct{}, 1)}
	var errs [2]error
	t.lease, errs[0] = candidate.NewPhasedLease(c.Lease, record.Legacy{Resource: string(c.Kind), Name: c.LegacyName, Elected: true})
	t.record, errs[1] = annotation.New(annotation.Config{
		Client: c.Core, Kind: c.Kind, Namespace: c.Lease.Namespace, Name: c.LegacyName,
		CloseConnections: c.Lease.CloseConnections, Logger: c.Lease.Logger,
	})
	if err := errors.Join(append([]error{candidate.CheckMode(c.Mode), c.Timing.Validate()}, errs[:]...)...); err != nil {
		return nil, fmt.Errorf("twin of lease %s/%s and %s %s: %w", c.Lease.Namespace, c.Lease.Name, c.Kind, c.LegacyName, err)
	}
	t.presence = candidate.NewPresenceKeeper(c.Config, c.Mode, false, t.lease.StageChanged)
	t.both = &both{governing: t.lease, legacy: t.record, governsAlone: t.leaseGovernsAlone}
	return t, nil
}

// leaseGovernsAlone reports whether the Lease counts alone: see Phases.
func (t *Lock) leaseGovernsAlone(governing locks.Snapshot) bool {
	stage := record.StageOf(governing.Version)
	if !governing.Version.Exists() {
		stage = t.lease.Stage()
	}
	return stage.Phase == record.PhaseClean
}

// Write puts r on what Read reads, the legacy object first, if both are still at
// base. Where the second write fails the first is done, and nothing is renewed:
// the error is not locks.ErrConflict then, whatever it was. It does not take
// the lock for a new holder at a version whose phase forbids that (ErrPhase).
func (t *Lock) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	s, ok := base.Opaque.(*twinState)
	if ok && s != nil {
		at := s.governing.Version
		if err := candidate.CheckHolder(t.permission(record.StageOf(at)), at, r); err != nil {
			return locks.Snapshot{}, err
		}
	}
	now, err := t.both.Write(ctx, base, r)
	if err != nil && (!ok || !s.governingOnly) {
		candidate.Signal(t.turned) // half of it may stand on the legacy object, in a phase that is clean by now
	}
	return now, err
}

func (t *Lock) permission(stage record.Stage) locks.Permission {
	return candidate.PermissionIn(stage, t.config.Mode, record.PhaseClean)
}

// SetUnhealthy has the presence object say why this candidate should not lead; see
// package multilock.
func (t *Lock) SetUnhealthy(why string) { t.presence.SetUnhealthy(why) }

// Peers reports which candidates have a presence object at the lock; see package
// multilock.
func (t *Lock) Peers(ctx context.Context, tell func([]locks.Peer)) { t.presence.Peers(ctx, tell) }

// Attend keeps this candidate's presence, and says by the phase whether it may
// campaign. It returns ErrPodGone when the candidate's pod no longer exists.
func (t *Lock) Attend(ctx context.Context, permit func(locks.Permission)) error {
	var wait sync.WaitGroup
	defer wait.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wait.Go(func() { t.presence.Keep(ctx) })
	for said := (locks.Permission{}); ; {
		if c := t.permission(t.lease.Stage()); c != said {
			said = c
			permit(c)
			t.presence.SetWaiting(c.Why)
		}
		select {
		case <-t.lease.StageChanged:
			candidate.Signal(t.turned)
		case <-t.presence.Present:
		case err := <-t.presence.PodGone:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Adopt lets the work begin at once, for whoever has the record has all that it
// takes. In phase clean it takes what is left of the legacy lock away.
func (t *Lock) Adopt(ctx context.Context, term locks.Term, permit func(locks.Permission)) error {
	permit(locks.Permission{Granted: true})
	interval := t.config.Timing.RenewInterval
	delays := candidate.Delays(interval, 30*interval)
	for trouble := ""; ; {
		var again <-chan time.Time
		if t.lease.Stage().Phase == record.PhaseClean {
			err := t.clearLegacyRecord(ctx, term)
			if err != nil && !errors.Is(err, locks.ErrForbidden) {
				again = time.After(delays.NextBackOff())
			}
			if err != nil && ctx.Err() == nil && err.Error() != trouble {
				trouble = err.Error()
				t.config.Lease.Logger.Error(err, "the phase is clean, and a candidate's record is perhaps still on the legacy object: leading goes on")
			}
		}
		select {
		case <-t.turned:
			delays.Reset()
		case <-again:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// clearLegacyRecord takes a candidate's record off the legacy object, at a version that was
// read before the Lease was read to say that it counts alone: what a leader puts
// there in a later phase dual is another version.
func (t *Lock) clearLegacyRecord(ctx context.Context, term locks.Term) error {
	ctx, cancel := context.WithTimeout(ctx, 3*t.config.Timing.AttemptTimeout)
	defer cancel()
	legacy, err := t.record.Read(ctx)
	if err != nil || legacy.Record.Holder == "" {
		return err
	}
	if !isOurs(legacy.Record) {
		t.config.Lease.Logger.Info("the phase is clean, and somebody else has the legacy lock: a legacy elector may lead too", "holder", legacy.Record.Holder, "object", t.record.Describe())
		return nil
	}
	governing, err := t.lease.Read(ctx)
	if err != nil || !t.leaseGovernsAlone(governing) || governing.Record.Holder != term.Holder {
		return err
	}
	return t.record.Clear(ctx, legacy.Version)
}
