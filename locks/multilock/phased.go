// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package multilock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
)

// phased is a Lease that carries the phase of a migration. It remembers the
// latest change of it that was seen, and notes it on a Lease that is made anew.
type phased struct {
	lease  *lease.Lock
	legacy record.Legacy // what to note about the legacy lock; zero for nothing

	mu      sync.Mutex
	stage   record.Stage
	noted   record.Legacy // the legacy lock that the Lease named last
	news    chan struct{} // stage has changed
	doubted chan struct{} // the connections at hand may be dead
}

func newPhased(c lease.Config, legacy record.Legacy) (*phased, error) {
	p := &phased{legacy: legacy, news: make(chan struct{}, 1), doubted: make(chan struct{}, 1)}
	c.Annotate = p.annotate
	var err error
	p.lease, err = lease.New(c)
	return p, err
}

// Describe says what Lease this is. It does no I/O.
func (p *phased) Describe() locks.Description { return p.lease.Describe() }

// CloseConnections closes every connection, as [lease.Lock.CloseConnections]
// does.
func (p *phased) CloseConnections() { p.lease.CloseConnections() }

// Read reads the Lease.
func (p *phased) Read(ctx context.Context) (locks.Snapshot, error) {
	p.doubt(ctx)
	now, err := p.lease.Read(ctx)
	return p.heard(now), err
}

// Write writes the Lease, and nothing else.
func (p *phased) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	p.doubt(ctx)
	now, err := p.lease.Write(ctx, base, r)
	return p.heard(now), err
}

// Watch watches the Lease. The elector watches anew when the watch before is
// silent though renewals get through: others on the same way may be, too.
func (p *phased) Watch(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
	signal(p.doubted)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seen, ended := make(chan locks.Event), make(chan error, 1)
	go func() { ended <- p.lease.Watch(ctx, from, seen) }()
	for {
		select {
		case e := <-seen:
			if !e.Bookmark {
				e.Snapshot = p.heard(e.Snapshot)
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

// annotate notes the phase on a Lease that is to be written: dual where no
// other was ever set and a legacy lock is held too.
func (p *phased) annotate(annotations map[string]string) map[string]string {
	stage := record.ReadStage(annotations).Later(p.latest())
	if stage.Phase == "" && p.legacy != (record.Legacy{}) {
		stage = record.Stage{Phase: record.PhaseDual, Step: 1}
	}
	annotations = record.WriteStage(annotations, stage)
	if p.legacy != (record.Legacy{}) {
		annotations[record.AnnotationLegacy] = p.legacy.String()
	}
	return annotations
}

// heard takes in the phase, and the legacy lock, that a Lease says. One that says
// an earlier phase than is known, or none, is partial, so that its holder notes
// the phase at once.
func (p *phased) heard(now locks.Snapshot) locks.Snapshot {
	if legacy := record.LegacyOf(now.Version); legacy != (record.Legacy{}) {
		p.mu.Lock()
		p.noted = legacy
		p.mu.Unlock()
	}
	stage := record.StageOf(now.Version)
	p.learn(stage)
	now.Partial = now.Version.Exists() && stage != p.latest()
	return now
}

// learn takes in a phase, and wakes whoever waits for news of it.
func (p *phased) learn(stage record.Stage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if later := p.stage.Later(stage); later != p.stage {
		p.stage = later
		signal(p.news)
	}
}

func (p *phased) latest() record.Stage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stage
}

// moved returns the legacy lock that the Lease named last, if it ever did.
func (p *phased) moved() record.Legacy {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.noted
}

// doubt tells that the elector doubts its connections.
func (p *phased) doubt(ctx context.Context) {
	if _, doubts := locks.WantsLiveConnection(ctx); doubts {
		signal(p.doubted)
	}
}

// ErrPhase says that the phase on record keeps this kind of candidate out.
var ErrPhase = errors.New("not in this phase")

// mayTake returns an error if r makes somebody the holder who is not the one of
// that version of the Lease, and c forbids it: the answer to the first read may
// have come before a guardian could withdraw its clearance.
func mayTake(c locks.Permission, lease locks.Version, r locks.Record) error {
	if c.Granted || r.Holder == "" || r.Holder == record.HolderOf(lease) {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrPhase, c.Why)
}

// clearanceIn says whether a candidate may campaign that takes part in the
// migration. One whose mode is Dual does not beyond that phase.
func clearanceIn(stage record.Stage, mode Mode, beyond ...record.Phase) locks.Permission {
	switch {
	case stage.Phase == record.PhaseLegacy:
		return locks.Permission{Why: "the phase on record is legacy: this program's legacy versions lead, until the phase is dual"}
	case mode == Dual && slices.Contains(beyond, stage.Phase):
		return locks.Permission{Why: fmt.Sprintf("the phase on record is %s, and this candidate's mode is dual: run it in mode auto", stage.Phase)}
	}
	return locks.Permission{Granted: true}
}

func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
