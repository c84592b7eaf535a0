// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package candidate

import (
	"context"
	"sync"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/leasewatch"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/heartbeat"
	"github.com/zonelect/zonelect/locks/lease"
)

// PhasedLease is a Lease that carries the phase of a migration. It remembers the latest
// phase that it saw, and writes it on a Lease that it recreates. Its methods are safe for
// concurrent use.
type PhasedLease struct {
	leaseLock
	legacy record.Legacy // the legacy lock to name on the Lease; zero for none

	StageChanged      chan struct{} // signaled when a later phase was seen
	ConnectionDoubted chan struct{} // signaled when the connections may be dead

	mu    sync.Mutex
	stage record.Stage
	noted record.Legacy // the legacy lock that the Lease named last
}

// leaseLock is a lock on a Lease.
type leaseLock interface {
	locks.Lock
	CloseConnections()
}

// NewPhasedLease returns the Lease that c describes, or an error that lists what is wrong
// with c. Every Lease that it writes names the legacy lock.
func NewPhasedLease(c lease.Config, legacy record.Legacy) (*PhasedLease, error) {
	p := &PhasedLease{legacy: legacy, StageChanged: make(chan struct{}, 1), ConnectionDoubted: make(chan struct{}, 1)}
	c.Annotate = p.annotate
	lock, err := lease.New(c)
	p.leaseLock = lock
	return p, err
}

// NewFollowedLease is NewPhasedLease for a Lease that the heartbeat of another process may
// keep.
func NewFollowedLease(c lease.Config, t timing.Timing) (*PhasedLease, error) {
	p := &PhasedLease{StageChanged: make(chan struct{}, 1), ConnectionDoubted: make(chan struct{}, 1)}
	c.Annotate = p.annotate
	lock, err := heartbeat.NewFollowed(c, leasewatch.Config{Patience: t.AttemptTimeout, Limit: t.RenewDeadline})
	p.leaseLock = lock
	return p, err
}

// Read reads the Lease.
func (p *PhasedLease) Read(ctx context.Context) (locks.Snapshot, error) {
	p.noteDoubt(ctx)
	now, err := p.leaseLock.Read(ctx)
	return p.observe(now), err
}

// Write writes the Lease, and nothing else.
func (p *PhasedLease) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	p.noteDoubt(ctx)
	now, err := p.leaseLock.Write(ctx, base, r)
	return p.observe(now), err
}

// Watch watches the Lease. The elector starts a new watch when the last one is silent
// although renewals get through. Other watches on that connection may be silent too, so
// Watch signals ConnectionDoubted.
func (p *PhasedLease) Watch(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
	Signal(p.ConnectionDoubted)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seen, ended := make(chan locks.Event), make(chan error, 1)
	go func() { ended <- p.leaseLock.Watch(ctx, from, seen) }()
	for {
		select {
		case e := <-seen:
			if !e.Bookmark {
				e.Snapshot = p.observe(e.Snapshot)
			}
			select {
			case events <- e:
			case <-ctx.Done():
			}
		case err := <-ended:
			return err
		}
	}
}

// annotate puts the phase on a Lease before it is written: dual if no phase was ever set
// and a legacy lock is held too.
func (p *PhasedLease) annotate(annotations map[string]string) map[string]string {
	stage := record.ReadStage(annotations).Later(p.Stage())
	if stage.Phase == "" && p.legacy != (record.Legacy{}) {
		stage = record.Stage{Phase: record.PhaseDual, Step: 1}
	}
	annotations = record.WriteStage(annotations, stage)
	if p.legacy != (record.Legacy{}) {
		annotations[record.AnnotationLegacy] = p.legacy.String()
	}
	return annotations
}

// observe remembers the phase and the legacy lock that a Lease names. A Lease with an
// earlier phase than the known one, or with none, is partial, so that its holder writes
// the phase at once.
func (p *PhasedLease) observe(now locks.Snapshot) locks.Snapshot {
	if legacy := record.LegacyOf(now.Version); legacy != (record.Legacy{}) {
		p.mu.Lock()
		p.noted = legacy
		p.mu.Unlock()
	}
	stage := record.StageOf(now.Version)
	p.ObserveStage(stage)
	now.Partial = now.Version.Exists() && stage != p.Stage()
	return now
}

// ObserveStage remembers a phase, and signals StageChanged, if it is a later one.
func (p *PhasedLease) ObserveStage(stage record.Stage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if later := p.stage.Later(stage); later != p.stage {
		p.stage = later
		Signal(p.StageChanged)
	}
}

// Stage returns the latest phase that was seen.
func (p *PhasedLease) Stage() record.Stage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stage
}

// Phases returns the latest phase that was seen, and all that there are: see [locks.Phased].
func (p *PhasedLease) Phases() (now string, all []string) {
	return string(p.Stage().Phase), record.PhaseNames()
}

// LegacyLock returns the legacy lock that the Lease named last, if it ever named one.
func (p *PhasedLease) LegacyLock() record.Legacy {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.noted
}

// noteDoubt signals ConnectionDoubted if the elector doubts its connections.
func (p *PhasedLease) noteDoubt(ctx context.Context) {
	if _, doubts := locks.WantsLiveConnection(ctx); doubts {
		Signal(p.ConnectionDoubted)
	}
}
