// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package twin

import (
	"context"
	"errors"
	"fmt"

	"github.com/zonelect/zonelect/locks"
)

// UnknownHolder is how the holder begins where the two locks of a [Lock] have
// different ones. client-go's MultiLock says the same.
const UnknownHolder = "leaderelection.k8s.io/unknown"

// both is one lock out of two that end by time: a holder has both, or, where
// governsAlone says so, the governing one alone. It keeps nothing of what it read but
// version numbers. See [Lock].
type both struct {
	governing, legacy locks.Lock
	// governsAlone reports of a state of the governing lock whether that counts alone.
	governsAlone func(locks.Snapshot) bool
	known        twinNumbers
}

var _ locks.Lock = (*both)(nil)

// state is what two snapshots mean together. That of the legacy lock does not
// matter where the governing one counts alone.
func (b *both) state(governing, legacy locks.Snapshot) *twinState {
	if b.governsAlone(governing) {
		return &twinState{governing: governing, governingOnly: true}
	}
	return &twinState{governing: governing, legacy: legacy}
}

// Describe names the governing lock, which is the Lease, and both kinds. It does no
// I/O.
func (b *both) Describe() locks.Description {
	d := b.governing.Describe()
	d.Kind += "+" + b.legacy.Describe().Kind
	return d
}

// CloseConnections closes every connection of both locks, as package lease does.
func (b *both) CloseConnections() {
	for _, lock := range []locks.Lock{b.governing, b.legacy} {
		if l, ok := lock.(interface{ CloseConnections() }); ok {
			l.CloseConnections()
		}
	}
}

// Read reads the Lease, and in phase dual the legacy object too, until what it has
// was true at one moment: two requests, or one in phase clean, and more while others
// write.
func (b *both) Read(ctx context.Context) (locks.Snapshot, error) {
	state, number, err := b.read(ctx)
	if err != nil || !state.exists() {
		return locks.Snapshot{}, err
	}
	return state.snapshot(number), nil
}

func (b *both) read(ctx context.Context) (*twinState, uint64, error) {
	for {
		generation := b.known.generation()
		state, err := b.collect(ctx)
		if err != nil {
			return nil, 0, err
		}
		if number, ok := b.known.read(state, generation); ok {
			return state, number, nil
		}
	}
}

// collect reads both locks at one moment, or the governing one where that counts
// alone. Two reads one after the other show a moment if the second gives the
// older version, which thus stood when the first was made; or if the first lock
// is still the same afterwards.
func (b *both) collect(ctx context.Context) (*twinState, error) {
	governing, err := b.readGoverning(ctx)
	for err == nil {
		if b.governsAlone(governing) {
			return b.state(governing, locks.Snapshot{}), nil
		}
		var legacy, again locks.Snapshot
		if legacy, err = b.legacy.Read(ctx); err != nil {
			return nil, fmt.Errorf("the legacy lock: %w", err)
		}
		state := b.state(governing, legacy)
		if legacy.Version.Exists() && legacy.Version.Number < governing.Version.Number {
			return state, nil
		}
		if again, err = b.readGoverning(ctx); err == nil && again.Version.Number == governing.Version.Number {
			return state, nil
		}
		governing = again
	}
	return nil, err
}

func (b *both) readGoverning(ctx context.Context) (locks.Snapshot, error) {
	s, err := b.governing.Read(ctx)
	if err != nil {
		return s, fmt.Errorf("the governing lock: %w", err)
	}
	return s, nil
}

// Write puts r on the legacy lock and then on the governing one, if they are
// still at base. Where the second fails the first is written, and nothing is
// renewed: the error is not locks.ErrConflict then, whatever it was, so that
// the next try comes a while later: a legacy elector cannot tell two renewals
// within one second apart.
func (b *both) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	from := &twinState{}
	if base.Exists() {
		read, ok := base.Opaque.(*twinState)
		if !ok || read == nil {
			return locks.Snapshot{}, fmt.Errorf("twin lock: the version to replace (%T) was not read from it", base.Opaque)
		}
		from = read
	}
	if from.governingOnly || !from.exists() && b.governsAlone(locks.Snapshot{}) {
		return b.writeAlone(ctx, from, r)
	}
	at := from.legacy.Version
	if !from.exists() {
		var err error
		if at, err = b.bare(ctx); err != nil {
			return locks.Snapshot{}, fmt.Errorf("the legacy lock: %w", err)
		}
	}
	legacy, err := b.legacy.Write(ctx, at, r)
	if err != nil {
		return locks.Snapshot{}, fmt.Errorf("the legacy lock: %w", err)
	}
	governing, err := b.governing.Write(ctx, from.governing.Version, r)
	if err != nil {
		return locks.Snapshot{}, &halfError{b.legacy.Describe(), err}
	}
	return b.wrote(b.state(governing, legacy))
}

// bare returns the version of the legacy object where there is no lock on it: it
// may exist without a record.
func (b *both) bare(ctx context.Context) (locks.Version, error) {
	now, err := b.legacy.Read(ctx)
	if err == nil && now.Version.Exists() && now.Record != (locks.Record{}) {
		err = fmt.Errorf("%w: it has a record by now", locks.ErrConflict)
	}
	return now.Version, err
}

// writeAlone puts r on the governing lock, which counts alone. It fails where
// that does not any more with what was written: then half of it is missing.
func (b *both) writeAlone(ctx context.Context, from *twinState, r locks.Record) (locks.Snapshot, error) {
	governing, err := b.governing.Write(ctx, from.governing.Version, r)
	if err != nil {
		return locks.Snapshot{}, fmt.Errorf("the governing lock: %w", err)
	}
	if !b.governsAlone(governing) {
		return locks.Snapshot{}, fmt.Errorf("%s was written alone, and by its phase %s counts too, so that nothing is renewed", b.governing.Describe(), b.legacy.Describe())
	}
	return b.wrote(b.state(governing, locks.Snapshot{}))
}

// wrote is the answer to a write.
func (b *both) wrote(s *twinState) (locks.Snapshot, error) {
	number, ok := b.known.wrote(s)
	if !ok {
		return locks.Snapshot{}, fmt.Errorf("%s was written by somebody else meanwhile, so that nothing is renewed", b.legacy.Describe())
	}
	now := s.snapshot(number)
	now.Version.Token = s.newest()
	return now, nil
}

// halfError is that of a write whose second half failed.
type halfError struct {
	written locks.Description
	err     error
}

func (e *halfError) Error() string {
	return fmt.Sprintf("%s was written, but not the governing lock, so that nothing is renewed: %v", e.written, e.err)
}

// Unwrap hides a conflict: that would say that nothing was written.
func (e *halfError) Unwrap() error {
	if errors.Is(e.err, locks.ErrConflict) {
		return nil
	}
	return e.err
}
