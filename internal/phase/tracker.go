// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import (
	"sync"

	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
)

// Tracker remembers the latest phase that a lock's Lease carried, and has it written on a Lease
// that is recreated. [Tracker.Annotate] and [Tracker.Observe] belong into the configuration of
// the Lease's lock. Its methods do no I/O, and are safe for concurrent use.
type Tracker struct {
	legacy  record.Legacy // the legacy lock to name on the Lease; zero for none
	changed chan struct{}

	mu   sync.Mutex // guards seen
	seen seen
}

// seen is what a Tracker remembers.
type seen struct {
	stage   record.Stage
	holders []record.LegacyHolder // that the legacy lock was seen to have
	noted   record.Legacy         // the legacy lock that the Lease named last
}

// NewTracker returns a Tracker that has seen nothing. Every Lease that is written names the legacy
// lock, unless that is zero.
func NewTracker(legacy record.Legacy) *Tracker {
	return &Tracker{legacy: legacy, changed: make(chan struct{}, 1)}
}

// Changed is signaled when a later phase was seen, and may be by others who use the channel to
// wake its reader.
func (p *Tracker) Changed() chan struct{} { return p.changed }

// Annotate puts the phase on a Lease before it is written: dual if no phase was ever set
// and a legacy lock is held too.
func (p *Tracker) Annotate(annotations map[string]string) map[string]string {
	stage := record.ReadStage(annotations).Later(p.Stage())
	if stage.Phase == "" && p.legacy != (record.Legacy{}) {
		stage = record.Stage{Phase: record.PhaseDual, Step: 1}
	}
	annotations = record.WriteStage(annotations, stage)
	if p.legacy != (record.Legacy{}) {
		annotations[record.AnnotationLegacy] = p.legacy.String()
	}
	if holders := p.Holders(); len(holders) > 0 {
		annotations = record.WriteLegacyHolders(annotations, holders)
	}
	return annotations
}

// Observe remembers the phase and the legacy lock that a Lease names. A Lease with an
// earlier phase than the known one, or with none, is partial, so that its holder writes
// the phase at once. A candidate that holds the legacy lock too is not barred by a phase.
func (p *Tracker) Observe(now locks.Snapshot) locks.Snapshot {
	if p.legacy != (record.Legacy{}) && now.Barred == record.StageOf(now.Version).Bars(record.LegacyOf(now.Version)) {
		now.Barred = ""
	}
	if legacy := record.LegacyOf(now.Version); legacy != (record.Legacy{}) {
		p.mu.Lock()
		p.seen.noted = legacy
		p.mu.Unlock()
	}
	for _, h := range record.LegacyHoldersOf(now.Version) {
		p.NoteHolder(h)
	}
	stage := record.StageOf(now.Version)
	p.Note(stage)
	now.Partial = now.Version.Exists() && stage != p.Stage()
	return now
}

// Note remembers a phase, and signals Changed, if it is a later one.
func (p *Tracker) Note(stage record.Stage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if later := p.seen.stage.Later(stage); later != p.seen.stage {
		p.seen.stage = later
		sleep.Wake(p.changed)
	}
}

// NoteHolder remembers a program that was seen to hold the legacy lock: each Lease that is written
// names it from then on (M9).
func (p *Tracker) NoteHolder(h record.LegacyHolder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen.holders = record.WithHolder(p.seen.holders, h)
}

func (p *Tracker) read() seen {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}

// Holders returns the programs that were seen to hold the legacy lock.
func (p *Tracker) Holders() []record.LegacyHolder { return p.read().holders }

// Stage returns the latest phase that was seen.
func (p *Tracker) Stage() record.Stage { return p.read().stage }

// LegacyLock returns the legacy lock that the Lease named last, if it ever named one.
func (p *Tracker) LegacyLock() record.Legacy { return p.read().noted }

// Phases returns the latest phase that was seen, and all that there are: see [locks.Capabilities].
func (p *Tracker) Phases() (now string, all []string) {
	return string(p.Stage().Phase), record.PhaseNames
}
