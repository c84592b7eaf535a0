// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package multilock

import (
	"context"
	"errors"
	"fmt"

	"github.com/zonelect/zonelect/election"
)

// UnknownHolder is how the holder begins where the two locks of a [Twin] have
// different ones. client-go's MultiLock says the same.
const UnknownHolder = "leaderelection.k8s.io/unknown"

// TwinConfig says which locks a Twin is made of.
type TwinConfig struct {
	// Governing decides among the candidates that know of it: a Lease.
	// Required.
	Governing election.Lock
	// Legacy is the lock that older programs hold, and that ends by time: an
	// annotation on a ConfigMap or an Endpoints object. Required. Both locks
	// must be of one cluster, for the versions of both are compared.
	Legacy election.Lock
}

// Twin is one lock out of two that end by time: a holder has both. It is for
// moving off the annotation locks of client-go, whose electors see nothing but
// their own object, or that and a Lease.
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
//   - one is absent, or has no holder, and the other is held: held by that one.
//     The snapshot is partial, so that the holder mends it at once.
//   - the same holder: what the Lease says. A renewal of ours on the legacy
//     object alone is none.
//   - the legacy object is absent and the Lease is free: nobody is known to hold
//     it, but a lease must pass, for deleted is not released.
//
// The number of a version is the larger of the two, which are comparable since
// all objects of a cluster that are not events are kept in one etcd: that is
// assumed. So tokens go on growing when the Lease is used alone later.
//
// Legacy electors up to client-go 0.26 judge an expiry by their own
// LeaseDuration: RenewInterval must suit the shortest, and the lock is not
// Exclusive.
//
// A Twin keeps nothing of what it read but version numbers. All methods are
// safe for concurrent use.
type Twin struct {
	governing, legacy election.Lock
	known             twinNumbers
}

var _ election.Lock = (*Twin)(nil)

// NewTwin returns the Twin that c describes. It does no I/O.
func NewTwin(c TwinConfig) (*Twin, error) {
	if c.Governing == nil || c.Legacy == nil {
		return nil, errors.New("twin lock: a lock is nil: set Governing, such as a lease lock, and Legacy, such as an annotation lock")
	}
	return &Twin{governing: c.Governing, legacy: c.Legacy}, nil
}

// Describe names the governing lock, and both kinds. It does no I/O.
func (t *Twin) Describe() election.Description {
	d := t.governing.Describe()
	d.Kind += "+" + t.legacy.Describe().Kind
	return d
}

// CloseConnections closes those of both locks. See lease.Lock.
func (t *Twin) CloseConnections() {
	for _, lock := range []election.Lock{t.governing, t.legacy} {
		if l, ok := lock.(interface{ CloseConnections() }); ok {
			l.CloseConnections()
		}
	}
}

// Read reads both locks, until what it has was true at one moment: two
// requests, and more while others write.
func (t *Twin) Read(ctx context.Context) (election.Snapshot, error) {
	state, number, err := t.read(ctx)
	if err != nil || !state.exists() {
		return election.Snapshot{}, err
	}
	return state.snapshot(number), nil
}

func (t *Twin) read(ctx context.Context) (*twinState, uint64, error) {
	for {
		generation := t.known.generation()
		state, err := t.collect(ctx)
		if err != nil {
			return nil, 0, err
		}
		if number, ok := t.known.read(state, generation); ok {
			return state, number, nil
		}
	}
}

// collect reads both locks at one moment. Two reads one after the other show a
// moment if the second gives the older version, which thus stood when the first
// was made; or if the first lock is still the same afterwards.
func (t *Twin) collect(ctx context.Context) (*twinState, error) {
	governing, err := t.readGoverning(ctx)
	for err == nil {
		var legacy, again election.Snapshot
		if legacy, err = t.legacy.Read(ctx); err != nil {
			return nil, fmt.Errorf("the legacy lock: %w", err)
		}
		state := &twinState{governing: governing, legacy: legacy}
		if legacy.Version.Exists() && legacy.Version.Number < governing.Version.Number {
			return state, nil
		}
		if again, err = t.readGoverning(ctx); err == nil && again.Version.Number == governing.Version.Number {
			return state, nil
		}
		governing = again
	}
	return nil, err
}

func (t *Twin) readGoverning(ctx context.Context) (election.Snapshot, error) {
	s, err := t.governing.Read(ctx)
	if err != nil {
		return s, fmt.Errorf("the governing lock: %w", err)
	}
	return s, nil
}

// Write puts r on the legacy lock and then on the governing one, if they are
// still at base. Where the second fails the first is written, and nothing is
// renewed: the error is not election.ErrConflict then, whatever it was, so that
// the next try comes a while later: a legacy elector cannot tell two renewals
// within one second apart.
func (t *Twin) Write(ctx context.Context, base election.Version, r election.Record) (election.Snapshot, error) {
	from := &twinState{}
	if base.Exists() {
		read, ok := base.Opaque.(*twinState)
		if !ok || read == nil {
			return election.Snapshot{}, fmt.Errorf("twin lock: the version to replace (%T) was not read from it", base.Opaque)
		}
		from = read
	}
	legacy, err := t.legacy.Write(ctx, from.legacy.Version, r)
	if err != nil {
		return election.Snapshot{}, fmt.Errorf("the legacy lock: %w", err)
	}
	governing, err := t.governing.Write(ctx, from.governing.Version, r)
	if err != nil {
		return election.Snapshot{}, &halfError{t.legacy.Describe(), err}
	}
	state := &twinState{governing: governing, legacy: legacy}
	t.known.wrote(state)
	return state.snapshot(state.newest()), nil
}

// halfError is that of a write whose second half failed.
type halfError struct {
	written election.Description
	err     error
}

func (e *halfError) Error() string {
	return fmt.Sprintf("%s was written, but not the governing lock, so that nothing is renewed: %v", e.written, e.err)
}

// Unwrap hides a conflict: that would say that nothing was written.
func (e *halfError) Unwrap() error {
	if errors.Is(e.err, election.ErrConflict) {
		return nil
	}
	return e.err
}
