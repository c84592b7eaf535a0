// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shield replaces one kind of legacy lock: operator-sdk's leader-for-life, a
// ConfigMap that the leader's pod owns.
//
// Its rules, M1 to M12, are in docs/design-migration.md. The file rules.go holds them as code, and
// state.go the state on which they decide, both without any I/O.
package shield

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/legacypods"
	"github.com/zonelect/zonelect/internal/phase"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/internal/transport/live"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/multilock/internal/candidate"
	"github.com/zonelect/zonelect/locks/multilock/shield/internal/shieldmap"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// Config is the configuration of a [Lock].
type Config struct {
	multilock.Config
	// Apps talks to the apps group, v1. Required, unless PodSelector is set.
	Apps rest.Interface
	// LegacyName is the name of the legacy ConfigMap, in the Lease's
	// namespace. Empty means that of the Lease.
	LegacyName string
	Mode       multilock.Mode // empty means Auto
	// PodSelector is a label selector for all of the operator's pods, old and new.
	// Empty means the selector of the Deployment that this pod belongs to.
	PodSelector string
	// LegacyGrace is how long the node of a legacy pod must have been silent before the
	// pod counts as gone (M11): at least 20 s. Zero means a minute, negative means never. It is
	// the one rule that trades safety for availability: behind a partition the pod may go on
	// working.
	LegacyGrace time.Duration
}

// Lock is a [locks.Lock] on a Lease that takes the place of a leader-for-life ConfigMap.
// While the phase is dual, the Lock keeps the ConfigMap as a shield: owned by the
// presence objects of the candidates, it makes every legacy pod wait. A Lock is a
// [locks.Guardian] of its own: an elector lets work begin only when no legacy pod may lead, and ends
// it when one does.
//
// A Lock serves one elector at a time. Its methods are safe for concurrent
// use.
type Lock struct {
	config    Config
	lease     *lease.Lock
	phase     *phase.Tracker
	doubted   chan struct{} // signaled when the connections may be dead
	presence  *presence.Keeper
	configMap *shieldmap.ConfigMap
	pods      *legacypods.Counter
	tenures   chan *tenure
}

// New returns the lock that c describes, or an error that lists what is
// wrong with c. It does no I/O.
func New(c Config) (*Lock, error) {
	c.LegacyName = cmp.Or(c.LegacyName, c.Lease.Name)
	c.Mode = cmp.Or(c.Mode, multilock.Auto)
	c.Timing = c.Timing.WithDefaults()
	s := &Lock{config: c, tenures: make(chan *tenure), doubted: make(chan struct{}, 1)}
	var errs [4]error
	legacy := record.Legacy{Resource: record.ConfigMaps, Name: c.LegacyName}
	s.lease, s.phase, errs[0] = candidate.NewLease(c.Config, c.Mode, legacy)
	at := ownerref.Config{Core: c.Core, Namespace: c.Lease.Namespace, Name: c.LegacyName}
	s.configMap, errs[1] = shieldmap.New(at, c.Lease.Labels, c.Lease.Logger)
	s.pods, errs[2] = legacypods.New(legacypods.Config{
		Core: c.Core, Apps: c.Apps, Coordination: c.Lease.Client,
		Namespace: c.Lease.Namespace, Lock: c.Lease.Name, Self: c.Pod,
		PodSelector: c.PodSelector, LegacyGrace: c.LegacyGrace, Held: s.phase.NoteHolder, Logger: c.Lease.Logger,
	})
	if c.Pod.Name == "" || c.Pod.UID == "" {
		errs[3] = fmt.Errorf("the name or the UID of this pod (%q) is not known: set POD_NAME and POD_UID by the downward API", c.Pod)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("shield of the ConfigMap %s/%s: %w", c.Lease.Namespace, c.LegacyName, err)
	}
	s.presence = candidate.NewKeeper(c.Config, c.Mode, true, s.phase.Changed())
	return s, nil
}

// Describe names the Lease. It does no I/O.
func (s *Lock) Describe() locks.Description { return s.lease.Describe() }

// Capabilities returns those of the Lease, with this lock as the Guardian. It does no I/O.
func (s *Lock) Capabilities() locks.Capabilities {
	c := s.lease.Capabilities()
	c.Guardian, c.Phases = s, s.phase.Phases
	return c
}

// Read reads the Lease.
func (s *Lock) Read(ctx context.Context) (locks.Snapshot, error) {
	s.noteDoubt(ctx)
	return s.lease.Read(ctx)
}

// Write writes the Lease, and nothing else.
func (s *Lock) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	s.noteDoubt(ctx)
	return s.lease.Write(ctx, base, r)
}

// Watch watches the Lease. The elector starts a new watch when the last one is silent
// although renewals get through. Other watches on that connection may be silent too.
func (s *Lock) Watch(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
	sleep.Wake(s.doubted)
	return s.lease.Watch(ctx, from, events)
}

// noteDoubt notes whether the elector doubts its connections.
func (s *Lock) noteDoubt(ctx context.Context) {
	if _, doubts := live.Wanted(ctx); doubts {
		sleep.Wake(s.doubted)
	}
}

// SetUnhealthy has the presence object say why this candidate should not lead; see
// package multilock.
func (s *Lock) SetUnhealthy(why string) { s.presence.SetUnhealthy(why) }

// SetZone has the presence object say in which zone this candidate is, if that was not known at first
// or has changed. It does no I/O.
func (s *Lock) SetZone(zone string) { s.presence.SetZone(zone) }

// Peers reports which candidates have a presence object at the lock; see package
// multilock.
func (s *Lock) Peers(ctx context.Context, tell func([]locks.Peer)) { s.presence.Peers(ctx, tell) }

// Attend keeps this candidate's presence and the shield, as [locks.Guardian]
// describes. It returns ErrPodGone when the candidate's pod no longer exists.
func (s *Lock) Attend(ctx context.Context, permit func(locks.Permission)) error {
	return newKeeper(s, permit).run(ctx)
}

// tenure is one term that the keeper has to adopt.
type tenure struct {
	ctx    context.Context
	term   locks.Term
	permit func(locks.Permission)
	done   chan error
}

// Adopt makes sure that no legacy pod may lead, and then watches for one that does.
func (s *Lock) Adopt(ctx context.Context, term locks.Term, permit func(locks.Permission)) error {
	t := &tenure{ctx: ctx, term: term, permit: permit, done: make(chan error, 1)}
	select {
	case s.tenures <- t:
		return <-t.done
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *Lock) log() logr.Logger { return s.config.Lease.Logger }
