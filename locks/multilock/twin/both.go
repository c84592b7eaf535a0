// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package twin

import (
	"context"
	"errors"
	"fmt"

	"github.com/zonelect/zonelect/locks"
)

// UnknownHolder is the prefix of the holder if the two locks of a [Lock] have different
// holders. client-go's MultiLock uses the same.
const UnknownHolder = "leaderelection.k8s.io/unknown"

// both makes one lock out of two that expire: a holder has both, or only the governing
// one if governsAlone says so. It keeps only version numbers of what it read. See [Lock].
type both struct {
	governing, legacy locks.Lock
	// governsAlone reports whether the governing lock counts alone in that state.
	governsAlone func(locks.Snapshot) bool
	// heard is told each record that was seen on the legacy object.
	heard func(locks.Record)
	known twinNumbers
}

// state combines two snapshots. That of the legacy lock does not matter if the governing
// one counts alone.
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

// Capabilities returns those of the governing lock, with whose connections the legacy one is used
// too.
func (b *both) Capabilities() locks.Capabilities { return b.governing.Capabilities() }

// Read reads the Lease, and in phase dual the legacy object too, until the results were
// both current at one moment. That takes two requests, or one in phase clean, and more
// while others write.
func (b *both) Read(ctx context.Context) (locks.Snapshot, error) {
	state, number, err := b.read(ctx)
	if err != nil || !state.exists() {
		return locks.Snapshot{}, err
	}
	return state.snapshot(number), nil
}

func (b *both) read(ctx context.Context) (*twinState, uint64, error) {
	for {
		before := b.known.newest()
		state, err := b.collect(ctx)
		if err != nil {
			return nil, 0, err
		}
		if number, ok := b.known.read(state, before); ok {
			return state, number, nil
		}
	}
}

// collect reads both locks as of one moment, or only the governing one if it counts
// alone. Two consecutive reads show one moment if the second returns the older version,
// which was thus current during the first; or if the first lock is unchanged afterward.
func (b *both) collect(ctx context.Context) (*twinState, error) {
	governing, err := b.governing.Read(ctx)
	for err == nil {
		if b.governsAlone(governing) {
			return b.state(governing, locks.Snapshot{}), nil
		}
		var legacy, again locks.Snapshot
		if legacy, err = b.legacy.Read(ctx); err != nil {
			break
		}
		b.heard(legacy.Record)
		state := b.state(governing, legacy)
		if legacy.Version.Exists() && legacy.Version.Number < governing.Version.Number {
			return state, nil
		}
		if again, err = b.governing.Read(ctx); err == nil && again.Version.Number == governing.Version.Number {
			return state, nil
		}
		governing = again
	}
	return nil, err
}

// Write puts r on the legacy lock and then on the governing one, if they are still at
// base. If the second write fails, the first has landed but nothing is renewed. The error
// then never wraps locks.ErrConflict, so that the next try comes a while later, because a
// legacy elector cannot tell two renewals within one second apart.
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
			return locks.Snapshot{}, err
		}
	}
	if from.isTorn() && from.governing.Record.Holder != r.Holder {
		if err := b.confirm(ctx, from.governing.Version); err != nil {
			return locks.Snapshot{}, err
		}
	}
	legacy, err := b.legacy.Write(ctx, at, r)
	if err != nil {
		return locks.Snapshot{}, err
	}
	governing, err := b.governing.Write(ctx, from.governing.Version, r)
	if errors.Is(err, locks.ErrConflict) {
		err = errors.New(err.Error()) // a conflict would mean that nothing was written
	}
	if err != nil {
		return locks.Snapshot{}, fmt.Errorf("%s was written, but not the governing lock, so nothing is renewed: %w", b.legacy.Describe(), err)
	}
	return b.wrote(b.state(governing, legacy))
}

// confirm returns nil if the governing lock is still at a version. A watch of it that lags, or
// is silent, makes the renewals of a holder look like halves.
func (b *both) confirm(ctx context.Context, at locks.Version) error {
	now, err := b.governing.Read(ctx)
	if v := now.Version; err == nil && (v.Exists() != at.Exists() || v.Exists() && v.Number != at.Number) {
		err = fmt.Errorf("%s: %w: its watch has not shown it yet", b.governing.Describe(), locks.ErrConflict)
	}
	return err
}

// bare returns the version of the legacy object if there is no lock on it: the object may
// exist without a record.
func (b *both) bare(ctx context.Context) (locks.Version, error) {
	now, err := b.legacy.Read(ctx)
	if err == nil && now.Version.Exists() && now.Record != (locks.Record{}) {
		err = fmt.Errorf("%s: %w: it has a record by now", b.legacy.Describe(), locks.ErrConflict)
	}
	return now.Version, err
}

// writeAlone puts r on the governing lock, which counts alone. It fails if that lock no
// longer counts alone after the write: then the other half is missing.
func (b *both) writeAlone(ctx context.Context, from *twinState, r locks.Record) (locks.Snapshot, error) {
	governing, err := b.governing.Write(ctx, from.governing.Version, r)
	if err != nil {
		return locks.Snapshot{}, err
	}
	if !b.governsAlone(governing) {
		return locks.Snapshot{}, fmt.Errorf("%s was written alone, and by its phase %s counts too, so nothing is renewed",
			b.governing.Describe(), b.legacy.Describe())
	}
	return b.wrote(b.state(governing, locks.Snapshot{}))
}

// wrote returns the result of a write.
func (b *both) wrote(s *twinState) (locks.Snapshot, error) {
	number, ok := b.known.wrote(s)
	if !ok {
		return locks.Snapshot{}, fmt.Errorf("%s was written by somebody else meanwhile, so nothing is renewed", b.legacy.Describe())
	}
	now := s.snapshot(number)
	now.Version.Token = s.newest()
	return now, nil
}
