// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package twin replaces one kind of legacy lock: client-go's old election record in an
// annotation of a ConfigMap or an Endpoints object.
package twin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/phase"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/annotation"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/multilock/internal/candidate"
)

// Config is the configuration of a [Lock].
type Config struct {
	multilock.Config
	// Kind of the object that has the annotation. Required.
	Kind annotation.Kind
	// LegacyName is its name, in the Lease's namespace. Empty means that of the
	// Lease.
	LegacyName string
	Mode       multilock.Mode // empty means Auto
}

// Lock is one lock made of a Lease and the lock of older programs, client-go's record on
// an annotation. Both expire, and a holder has both. It is for moving off the annotation
// locks, whose electors see only their own object, or that and a Lease.
//
// A write puts the record on the legacy object first and on the Lease second, each by
// compare-and-swap. Only both together are a renewal: if the second fails, the write
// fails, and the next read shows the state. If the two differ, the lock reads as follows:
//
//   - different holders: one unknown holder, whose name has [UnknownHolder] and both
//     names, with the longer lease. Each change on either side counts as its renewal. A
//     candidate that stopped between its two writes looks the same: all wait for a lease.
//   - one is absent, or has no holder, and the other is held: held by that holder, and if
//     somebody emptied the one by hand, for the longer lease of both. The snapshot is
//     partial, so that the holder repairs it at once.
//   - the same holder: as the Lease says. A candidate's renewal on the legacy object
//     alone does not count. The watch of the Lease may have missed the other half, so
//     another candidate reads the Lease before it takes the lock then.
//   - the legacy object is absent and the Lease is free: no holder is known, but a lease
//     must pass, because a deletion is not a release.
//   - there is no Lease, and the legacy object has no record: there is no lock.
//
// The number of a version is the larger of the two. They are comparable on the assumption
// that one etcd stores all objects of a cluster except events. So tokens continue to grow
// when the Lease is used alone later. If the changes of the two sides arrive in another
// order than they were made, a number within this process may be larger than both; a
// token never is.
//
// Legacy electors up to client-go 0.26 judge expiry by their own LeaseDuration:
// RenewInterval must suit the shortest, and the lock is not Exclusive.
//
// # Phases
//
// A Lock follows the phase on the Lease, and has a [locks.Guardian]:
//
//   - legacy: no candidate campaigns. A leader stops cleanly and releases both locks.
//   - dual, or no phase on record: both locks, as above. A record that expires cannot be
//     sealed, so sealed counts as dual.
//   - clean: the Lease alone is the lock. The leader removes a candidate's record from
//     the legacy object, and leaves the object.
//
// The version of the Lease in a state says which phase counts for that state, and a write
// replaces that version of the Lease or fails. So no candidate leads by a past phase: a
// change of phase is a new version of the Lease, and the API server refuses the next
// Lease write of a candidate that has not seen it. Candidates write the Lease by
// compare-and-swap in both phases, and it alone decides among them. A candidate that
// still assumes dual in phase clean can only leave half a write on the legacy object.
// Nobody leads by that, and the next leader removes it.
//
// Toward legacy electors, dual is in force again once the leader has written both
// records. On the way back from clean that takes one watch event after the change, up to a
// second more if the leader has just mended its record, or its RenewDeadline if it is cut
// off. A legacy elector that leads by then ends the leader's term.
//
// If the Lease is gone, the latest phase that this process has seen on it counts, and the
// process writes that phase when it recreates the Lease. A process that has seen none
// assumes dual.
//
// A Lock keeps only version numbers and that phase of what it read. It serves one elector
// at a time. All methods are safe for concurrent use.
type Lock struct {
	config   Config
	lease    *lease.Lock
	phase    *phase.Tracker
	presence *presence.Keeper
	record   *annotation.Lock
	*both
	turned chan struct{} // the phase has changed, or a write in phase dual has failed
}

// New returns the lock that c describes, or an error that lists what is
// wrong with c. It does no I/O.
func New(c Config) (*Lock, error) {
	c.LegacyName = cmp.Or(c.LegacyName, c.Lease.Name)
	c.Mode = cmp.Or(c.Mode, multilock.Auto)
	c.Timing = c.Timing.WithDefaults()
	t := &Lock{config: c, turned: make(chan struct{}, 1)}
	var errs [2]error
	legacy := record.Legacy{Resource: string(c.Kind), Name: c.LegacyName, Elected: true}
	t.lease, t.phase, errs[0] = candidate.NewLease(c.Config, c.Mode, legacy)
	t.record, errs[1] = annotation.New(annotation.Config{
		Client: c.Core, Kind: c.Kind, Namespace: c.Lease.Namespace, Name: c.LegacyName,
		Labels: c.Lease.Labels, Logger: c.Lease.Logger,
	})
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("twin of lease %s/%s and %s %s: %w", c.Lease.Namespace, c.Lease.Name, c.Kind, c.LegacyName, err)
	}
	t.presence = candidate.NewKeeper(c.Config, c.Mode, false, t.phase.Changed())
	t.both = &both{governing: t.lease, legacy: t.record, governsAlone: t.leaseGovernsAlone, heard: t.heardLegacy}
	return t, nil
}

// leaseGovernsAlone reports whether the Lease counts alone: see Phases.
func (t *Lock) leaseGovernsAlone(governing locks.Snapshot) bool {
	stage := record.StageOf(governing.Version)
	if !governing.Version.Exists() {
		stage = t.phase.Stage()
	}
	return stage.Phase == record.PhaseClean
}

// heardLegacy notes who holds the legacy lock (M9): the host in a legacy elector's identity, which is
// its pod's name.
func (t *Lock) heardLegacy(r locks.Record) {
	host, _, _ := strings.Cut(r.Holder, "_")
	if host == "" || isOurs(r) {
		return
	}
	t.phase.NoteHolder(record.LegacyHolder{Name: host})
	sleep.Wake(t.phase.Changed())
}

// findPods looks up the pods of legacy holders at each signal, each pod until the server has answered once.
func (t *Lock) findPods(ctx context.Context, heard <-chan struct{}) {
	asked := map[string]bool{}
	for ctx.Err() == nil {
		for _, h := range t.phase.Holders() {
			if asked[h.Name] || len(h.Labels) > 0 {
				continue
			}
			name := apierror.Object{Resource: apierror.Pods, Namespace: t.config.Lease.Namespace, Name: h.Name}
			pod, err := rawapi.Ask(ctx, t.config.Timing.AttemptTimeout, rawapi.New[corev1.Pod](t.config.Core, name).Get)
			if asked[h.Name] = err == nil || name.Absent(err); err == nil {
				t.phase.NoteHolder(record.LegacyHolder{Name: h.Name, Labels: pod.Labels})
			}
		}
		select {
		case <-heard:
		case <-ctx.Done():
		}
	}
}

// Write puts r on the objects that Read reads, the legacy object first, if they are still
// at base. If the second write fails, the first has landed but nothing is renewed, and
// the error never wraps locks.ErrConflict. Write refuses to take the lock for a new
// holder at a version whose phase forbids that (ErrPhase).
func (t *Lock) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	s, ok := base.Opaque.(*twinState)
	if ok && s != nil {
		at := s.governing.Version
		p := t.permission(record.StageOf(at))
		if !p.Granted && r.Holder != "" && r.Holder != record.HolderOf(at) { // the first read may return before the guardian reports
			return locks.Snapshot{}, fmt.Errorf("%w: %s", phase.ErrPhase, p.Why)
		}
	}
	now, err := t.both.Write(ctx, base, r)
	if err != nil && (!ok || !s.governingOnly) {
		sleep.Wake(t.turned) // half of it may be on the legacy object, in a phase that is clean by now
	}
	return now, err
}

func (t *Lock) permission(stage record.Stage) locks.Permission {
	return candidate.PermissionIn(stage, t.config.Mode, record.PhaseClean)
}

// Capabilities returns those of the Lease, with this lock as the Guardian. It does no I/O.
func (t *Lock) Capabilities() locks.Capabilities {
	c := t.both.Capabilities()
	c.Guardian, c.Phases = t, t.phase.Phases
	return c
}

// SetUnhealthy has the presence object say why this candidate should not lead; see
// package multilock.
func (t *Lock) SetUnhealthy(why string) { t.presence.SetUnhealthy(why) }

// SetZone has the presence object say in which zone this candidate is, if that was not known at first
// or has changed. It does no I/O.
func (t *Lock) SetZone(zone string) { t.presence.SetZone(zone) }

// Peers reports which candidates have a presence object at the lock; see package
// multilock.
func (t *Lock) Peers(ctx context.Context, tell func([]locks.Peer)) { t.presence.Peers(ctx, tell) }

// Attend keeps this candidate's presence, and reports whether the phase lets it campaign.
func (t *Lock) Attend(ctx context.Context, permit func(locks.Permission)) error {
	var wait sync.WaitGroup
	defer wait.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wait.Go(func() { _ = t.presence.Keep(ctx) }) // no shield depends on it
	heard := make(chan struct{}, 1)
	wait.Go(func() { t.findPods(ctx, heard) })
	for said := (locks.Permission{}); ; {
		if c := t.permission(t.phase.Stage()); c != said {
			said = c
			permit(c)
			t.presence.SetWaiting(c.Why)
		}
		select {
		case <-t.phase.Changed():
			sleep.Wake(t.turned)
			sleep.Wake(heard)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Adopt lets the work begin at once, because the holder of the record needs nothing else.
// In phase clean it removes what is left of the legacy lock.
func (t *Lock) Adopt(ctx context.Context, term locks.Term, permit func(locks.Permission)) error {
	permit(locks.Permission{Granted: true})
	interval := t.config.Timing.RenewInterval
	delays := sleep.Delays(interval, 30*interval)
	for trouble := ""; ; {
		var again <-chan time.Time
		if t.phase.Stage().Phase == record.PhaseClean {
			limited, done := context.WithTimeout(ctx, t.config.Timing.RenewDeadline)
			err := t.clearLegacyRecord(limited, term)
			done()
			if err != nil && !errors.Is(err, locks.ErrForbidden) {
				again = time.After(delays.NextBackOff())
			}
			if err != nil && ctx.Err() == nil && err.Error() != trouble {
				trouble = err.Error()
				t.config.Lease.Logger.Error(err, "the phase is clean, but a candidate's record may still be on the legacy object")
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

// clearLegacyRecord removes a candidate's record from the legacy object. It reads that
// version before it reads the Lease to confirm that the Lease counts alone, so it cannot
// remove what a leader writes in a later phase dual, which is another version.
func (t *Lock) clearLegacyRecord(ctx context.Context, term locks.Term) error {
	legacy, err := t.record.Read(ctx)
	if err != nil || legacy.Record.Holder == "" {
		return err
	}
	if !isOurs(legacy.Record) {
		t.config.Lease.Logger.Info("the phase is clean, and somebody else has the legacy lock: a legacy elector may lead too",
			"holder", legacy.Record.Holder, "object", t.record.Describe())
		return nil
	}
	governing, err := t.lease.Read(ctx)
	if err != nil || !t.leaseGovernsAlone(governing) || governing.Record.Holder != term.Holder {
		return err
	}
	return t.record.Clear(ctx, legacy.Version)
}
