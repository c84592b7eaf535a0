// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leaseonly is the lock of programs that take no part in a migration, and
// must not lead beside those that do. Programs use it by package multilock.
package leaseonly

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/patience"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/multilock/internal/candidate"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// Lock is a [locks.Lock] on a Lease alone, for programs that take no part in a migration.
// It is a [locks.Guardian] that does not let its candidate campaign while a legacy lock
// counts too (M12). That is so while the phase on the Lease is legacy or dual, or sealed
// although the legacy lock is an election record; and if, at the start or after such a
// phase, a ConfigMap of the lock's name is a leader-for-life lock, or a shield that is
// not sealed. Its methods are safe for concurrent use.
type Lock struct {
	config    Config
	lease     *candidate.PhasedLease
	presence  *candidate.PresenceKeeper
	configMap *ownerref.ConfigMap
}

// Config is the configuration of a [Lock]. The lock looks for the ConfigMap through Core;
// if that is not permitted, it goes on without looking, and logs that.
type Config = candidate.Config

var (
	_ locks.Guardian = (*Lock)(nil)
	_ locks.Phased   = (*Lock)(nil)
)

const (
	// recheckError and recheckLegacy are how long after a look that failed, or that found
	// a legacy ConfigMap, the next look comes.
	recheckError  = time.Second
	recheckLegacy = 10 * time.Second
)

// New returns the lock that c describes, or an error that lists what is
// wrong with c. It does no I/O.
func New(c Config) (*Lock, error) {
	c.Timing = c.Timing.WithDefaults()
	l := &Lock{config: c}
	var errs [2]error
	l.lease, errs[0] = candidate.NewFollowedLease(c.Lease, c.Timing)
	l.configMap, errs[1] = ownerref.New(ownerref.Config{Core: c.Core, Namespace: c.Lease.Namespace, Name: c.Lease.Name, Logger: c.Lease.Logger})
	if err := errors.Join(append(errs[:], c.Timing.Validate())...); err != nil {
		return nil, err
	}
	l.presence = candidate.NewPresenceKeeper(c, candidate.Alone, false, l.lease.StageChanged)
	return l, nil
}

// Describe names the Lease. It does no I/O.
func (l *Lock) Describe() locks.Description { return l.lease.Describe() }

// Phases returns the latest phase that was seen, and all that there are. It does no I/O.
func (l *Lock) Phases() (now string, all []string) { return l.lease.Phases() }

// CloseConnections closes every connection, as package lease does.
func (l *Lock) CloseConnections() { l.lease.CloseConnections() }

// Read reads the Lease.
func (l *Lock) Read(ctx context.Context) (locks.Snapshot, error) { return l.lease.Read(ctx) }

// Watch watches the Lease.
func (l *Lock) Watch(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
	return l.lease.Watch(ctx, from, events)
}

// SetUnhealthy has the presence object say why this candidate should not lead; see
// package multilock.
func (l *Lock) SetUnhealthy(why string) { l.presence.SetUnhealthy(why) }

// Peers reports which candidates have a presence object at the lock; see package
// multilock.
func (l *Lock) Peers(ctx context.Context, tell func([]locks.Peer)) { l.presence.Peers(ctx, tell) }

// Attend says whether this candidate may campaign, as [locks.Guardian] describes. It
// also keeps this candidate's presence, but does not depend on it.
func (l *Lock) Attend(ctx context.Context, permit func(locks.Permission)) error {
	var wait sync.WaitGroup
	defer wait.Wait()
	wait.Go(func() { l.presence.Keep(ctx) })
	said := locks.Permission{}
	say := func(c locks.Permission) {
		if c != said {
			said = c
			permit(c)
			l.presence.SetWaiting(c.Why)
		}
	}
	var look look
	var again <-chan time.Time // the next look; nil for at once
	for {
		switch c := l.permission(); {
		case said.Granted || !c.Granted:
			look.end()
			say(c)
		case look.outdated(l.lease.Stage()):
			look.end()
			continue
		case look.answer == nil && again == nil:
			look = l.look(ctx, &wait)
		}
		select {
		case <-l.lease.StageChanged:
			again = nil
		case <-again:
			again = nil
		case err := <-look.answer:
			if l.permission().Granted && !look.outdated(l.lease.Stage()) {
				c, pause := permissionBeside(err)
				say(c)
				again = time.After(pause)
			}
			look.end()
		case <-l.presence.Present:
		case err := <-l.presence.PodGone:
			l.config.Lease.Logger.Info("the own presence object is not kept any more", "cause", err.Error())
		case <-ctx.Done(): // with all looks
			return context.Cause(ctx)
		}
	}
}

// permission says whether this candidate may campaign in the latest phase.
func (l *Lock) permission() locks.Permission {
	return permissionAlone(l.lease.Stage(), l.lease.LegacyLock())
}

// Write writes the Lease, but refuses to take it for a new holder at a version whose
// phase forbids that.
func (l *Lock) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	if err := CheckTaking(base, r); err != nil {
		return locks.Snapshot{}, err
	}
	return l.lease.Write(ctx, base, r)
}

// CheckTaking returns an error if r takes a lock from the version base of its Lease although a
// candidate that knows the Lease alone may not campaign there, because of the phase of a
// migration.
func CheckTaking(base locks.Version, r locks.Record) error {
	return candidate.CheckHolder(permissionAlone(record.StageOf(base), record.LegacyOf(base)), base, r)
}

// permissionAlone says whether a candidate that knows the Lease alone may campaign. An
// election record cannot be sealed: if somebody sets that phase by hand, it counts as
// dual.
func permissionAlone(stage record.Stage, legacy record.Legacy) locks.Permission {
	switch {
	case stage.Phase == record.PhaseLegacy || stage.Phase == record.PhaseDual:
	case stage.Phase == record.PhaseSealed && legacy.Elected:
	default:
		return locks.Permission{Granted: true}
	}
	return locks.Permission{Why: fmt.Sprintf("the phase on the Lease is %s, and this candidate knows the Lease alone: run it in mode auto", stage.Phase)}
}

// look is a look for a legacy ConfigMap that is under way, for as long as the server takes.
type look struct {
	stage  record.Stage // that was known first
	answer chan error   // gets the answer; nil if no look is under way
	cancel context.CancelFunc
}

// look looks for a legacy ConfigMap.
func (l *Lock) look(ctx context.Context, wait *sync.WaitGroup) look {
	ctx, cancel := context.WithCancel(ctx)
	answer := make(chan error, 1)
	wait.Go(func() { answer <- CheckNoLegacy(ctx, l.configMap, l.config.Timing, l.config.Lease.Logger) })
	return look{l.lease.Stage(), answer, cancel}
}

// outdated reports whether the ConfigMap may be of a phase that began after the look.
func (k *look) outdated(now record.Stage) bool {
	if k.stage == (record.Stage{}) {
		k.stage = now
	}
	return k.answer != nil && now != k.stage
}

// end ends the look, if one is under way.
func (k *look) end() {
	if k.answer != nil {
		k.cancel()
		*k = look{}
	}
}

// permissionBeside says whether a candidate may campaign after a look that found err, and when
// to look again.
func permissionBeside(err error) (locks.Permission, time.Duration) {
	switch {
	case errors.Is(err, candidate.ErrPhase):
		return locks.Permission{Why: err.Error()}, recheckLegacy
	case err != nil:
		return locks.Permission{Why: err.Error()}, recheckError
	}
	return locks.Permission{Granted: true}, 0
}

// CheckNoLegacy reads the ConfigMap of a lock's name. It returns an error that wraps
// candidate.ErrPhase if a candidate that knows the Lease alone may not campaign beside it. If
// the ConfigMap may not be read, it returns nil and logs that. It has as much patience with the
// server as an election of that timing.
func CheckNoLegacy(ctx context.Context, configMap *ownerref.ConfigMap, t timing.Timing, log logr.Logger) error {
	r, err := patience.Ask(ctx, t.AttemptTimeout, 2*t.RenewDeadline, configMap.Read) // the dial and the answer may take a RenewDeadline each
	switch {
	case errors.Is(err, locks.ErrForbidden):
		log.Info("it is not known whether a legacy ConfigMap exists: that is not permitted to read", "cause", err.Error())
		return nil
	case err != nil:
		return err
	case r.Condemned && (r.Kind == ownerref.Legacy || r.Kind == ownerref.Shield):
		return fmt.Errorf("%w: %s is a %s, and %s: run this candidate in mode auto, or have the finalizers removed if no program uses it any more", candidate.ErrPhase, configMap.Name(), r.Kind, r.Lingering())
	case r.Kind == ownerref.Legacy:
		return fmt.Errorf("%w: the ConfigMap %s is a leader-for-life lock of pod %s: run this candidate in mode auto, or delete that ConfigMap if no program uses it any more", candidate.ErrPhase, configMap.Name(), r.Owner.Name)
	case r.Kind == ownerref.Shield:
		return fmt.Errorf("%w: the ConfigMap %s is a shield that is not sealed, and goes with the candidates that own it: the leader seals it in phase sealed; until then run this candidate in mode auto", candidate.ErrPhase, configMap.Name())
	}
	return nil
}

// Adopt lets the work begin at once.
func (l *Lock) Adopt(ctx context.Context, _ locks.Term, permit func(locks.Permission)) error {
	permit(locks.Permission{Granted: true})
	<-ctx.Done()
	return context.Cause(ctx)
}
