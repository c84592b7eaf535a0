// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package multilock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// LeaseOnly is an locks.Lock on a Lease alone, for programs that take no
// part in a migration. It is an [locks.Guardian] that does not campaign
// where a legacy lock counts too (M12): while the phase on the Lease is legacy
// or dual, or sealed though the legacy lock is an election record, or where, at
// the start or after such a phase, a ConfigMap of the lock's name is a
// leader-for-life lock, or a shield that is not sealed. Its methods are safe for
// concurrent use.
type LeaseOnly struct {
	*phased
	*attendance
	config    LeaseOnlyConfig
	configMap *ownerref.ConfigMap
}

// LeaseOnlyConfig says what a [LeaseOnly] is made of.
type LeaseOnlyConfig struct {
	// Lease is the Lease. Client and CloseConnections serve this lock alone.
	Lease lease.Config
	// Core talks to the core group, v1, to look for the ConfigMap; where that is
	// not permitted, it is not looked for, and the log says so. Required.
	Core rest.Interface
	// Candidate and Pod are who campaigns. Without the name and the UID of a pod
	// in the Lease's namespace there is no presence object, so that neither tools
	// nor other candidates know of this one.
	Candidate locks.Candidate
	Pod       ownerref.Owner
	// Version of the program, for people.
	Version string
	// Timing is the election's.
	Timing election.Timing
}

// Alone is the mode that the presence of a [LeaseOnly] says. It takes no part in
// a migration.
const Alone Mode = "lease"

var (
	_ locks.Guardian = (*LeaseOnly)(nil)
	_ locks.Amender  = (*LeaseOnly)(nil)
)

const (
	// lookPatience bounds one look for a legacy ConfigMap.
	lookPatience = 2 * time.Second
	// recheckError and recheckLegacy are how long after one that failed, or that
	// found one in the way, the next look comes.
	recheckError  = time.Second
	recheckLegacy = 10 * time.Second
)

// NewLeaseOnly returns the lock that c describes, or an error that lists what is
// wrong with c. It does no I/O.
func NewLeaseOnly(c LeaseOnlyConfig) (*LeaseOnly, error) {
	c.Timing = c.Timing.WithDefaults()
	l := &LeaseOnly{config: c}
	var errs [2]error
	l.phased, errs[0] = newPhased(c.Lease, record.Legacy{})
	l.configMap, errs[1] = ownerref.New(ownerref.Config{Core: c.Core, Namespace: c.Lease.Namespace, Name: c.Lease.Name, Logger: c.Lease.Logger})
	if err := errors.Join(append(errs[:], c.Timing.Validate())...); err != nil {
		return nil, err
	}
	l.attendance = newAttendance(participant{c.Lease, c.Core, Alone, c.Candidate, c.Pod, c.Version, c.Timing, false}, l.news)
	return l, nil
}

// Attend says whether this candidate may campaign, as locks.Guardian says, and
// keeps the own presence, which it does not depend on.
func (l *LeaseOnly) Attend(ctx context.Context, clear func(locks.Permission)) error {
	var wait sync.WaitGroup
	defer wait.Wait()
	wait.Go(func() { l.keepPresence(ctx) })
	said := locks.Permission{}
	for {
		c, again := mayMix(l.latest(), l.moved()), time.Duration(0)
		if !said.Granted && c.Granted {
			c, again = l.look(ctx)
		}
		if c != said {
			said = c
			clear(c)
			l.sayWaiting(c.Why)
		}
		var later <-chan time.Time
		if again > 0 {
			later = time.After(again)
		}
		select {
		case <-l.news:
		case <-later:
		case <-l.present:
		case err := <-l.podGone:
			l.config.Lease.Logger.Info("the own presence object is not kept any more", "cause", err.Error())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Write writes the Lease, but does not take it for a new holder at a version
// whose phase forbids that.
func (l *LeaseOnly) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	if err := mayTake(mayMix(record.StageOf(base), record.LegacyOf(base)), base, r); err != nil {
		return locks.Snapshot{}, err
	}
	return l.phased.Write(ctx, base, r)
}

// Amend is [lease.Lock.Amend]. It takes the Lease for nobody, so it asks for no phase.
func (l *LeaseOnly) Amend(ctx context.Context, before, r locks.Record) (locks.Snapshot, error) {
	now, err := l.lease.Amend(ctx, before, r)
	return l.heard(now), err
}

// mayMix says whether a candidate that knows the Lease alone may campaign. An
// election record cannot be sealed: whoever set that by hand has dual.
func mayMix(stage record.Stage, legacy record.Legacy) locks.Permission {
	switch {
	case stage.Phase == record.PhaseLegacy || stage.Phase == record.PhaseDual:
	case stage.Phase == record.PhaseSealed && legacy.Elected:
	default:
		return locks.Permission{Granted: true}
	}
	return locks.Permission{Why: fmt.Sprintf("the phase on the Lease is %s, and this candidate knows the Lease alone: run it in mode auto", stage.Phase)}
}

// look looks for a legacy ConfigMap, and says when to look again.
func (l *LeaseOnly) look(ctx context.Context) (locks.Permission, time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	r, err := l.configMap.Read(ctx)
	switch {
	case errors.Is(err, locks.ErrForbidden):
		l.config.Lease.Logger.Info("it is not known whether a legacy ConfigMap exists: that is not permitted to read", "cause", err.Error())
	case err != nil:
		return locks.Permission{Why: err.Error()}, recheckError
	case r.Kind == ownerref.Legacy:
		return locks.Permission{Why: fmt.Sprintf("the ConfigMap %s/%s is a leader-for-life lock of pod %s: run this candidate in mode auto, or delete that ConfigMap if no program uses it any more", l.config.Lease.Namespace, l.config.Lease.Name, r.Owner.Name)}, recheckLegacy
	case r.Kind == ownerref.Shield:
		return locks.Permission{Why: fmt.Sprintf("the ConfigMap %s/%s is a shield that is not sealed, and goes with the candidates that own it: the leader seals it in phase sealed; until then run this candidate in mode auto", l.config.Lease.Namespace, l.config.Lease.Name)}, recheckLegacy
	}
	return locks.Permission{Granted: true}, 0
}

// Adopt lets the work begin at once.
func (l *LeaseOnly) Adopt(ctx context.Context, _ locks.Term, clear func(locks.Permission)) error {
	clear(locks.Permission{Granted: true})
	<-ctx.Done()
	return context.Cause(ctx)
}
