// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/leasewatch"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
)

// Followed is a lock on one Lease that renews itself by writes of its own, as lease.Lock does,
// and follows the heartbeat of another process that keeps the Lease. It is for candidates
// that share a lock with others that have a heartbeat. It watches all Leases of the namespace
// only while a heartbeat keeps this one. Its methods are safe for concurrent use.
type Followed struct {
	*lease.Lock
	shared *Lock
}

var _ locks.Lock = (*Followed)(nil)

// NewFollowed returns the lock on the Lease that c describes, or an error that lists
// everything that is wrong with c. v says how its View waits. It does no I/O.
func NewFollowed(c lease.Config, v leasewatch.Config) (*Followed, error) {
	alone := c
	alone.Logger = logr.Logger{} // a heartbeat may give what it would warn of another meaning
	own, err := lease.New(alone)
	if err != nil {
		return nil, err
	}
	v.Client, v.Namespace, v.Logger = c.Client, c.Namespace, c.Logger
	view, err := leasewatch.New(v)
	if err != nil {
		return nil, err
	}
	shared, err := Config{Client: c.Client, Namespace: c.Namespace, View: view, Writes: NewWrites(1), Logger: c.Logger}.New(c.Name)
	return &Followed{Lock: own, shared: shared}, err
}

// attached reports whether a heartbeat keeps the Lease of a version.
func attached(v locks.Version) bool {
	lease, _ := v.Opaque.(*coordinationv1.Lease)
	if lease == nil {
		return stateOf(v) != nil
	}
	_, is := attachmentOf(lease)
	return is
}

// alone returns the snapshot of the Lease while no heartbeat keeps it.
func (f *Followed) alone(s locks.Snapshot) locks.Snapshot {
	s = unkept(s)
	f.shared.long.See(f.shared.Logger, f.Describe(), s.Record)
	return s
}

// Read reads the Lease, and all Leases of the namespace if a heartbeat keeps it.
func (f *Followed) Read(ctx context.Context) (locks.Snapshot, error) {
	s, err := f.Lock.Read(ctx)
	if err != nil {
		return s, err
	}
	if !attached(s.Version) {
		return f.alone(s), nil
	}
	return f.shared.Read(ctx)
}

// Write writes the Lease, which no heartbeat keeps then. If the heartbeat of another process
// keeps it, that is withdrawn first (L2).
func (f *Followed) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	if was := stateOf(base); was != nil {
		if was.mayBeat {
			if err := f.shared.withdraw(ctx, was); err != nil {
				return locks.Snapshot{}, err
			}
		}
		base.Opaque = was.lease
	}
	return f.Lock.Write(ctx, base, r)
}

// Watch watches the Lease, and all Leases of the namespace as long as a heartbeat keeps it.
func (f *Followed) Watch(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
	if stateOf(from) == nil {
		var err error
		if from, err = f.watchOwn(ctx, from, events); err != nil || stateOf(from) == nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	var viewing sync.WaitGroup
	defer viewing.Wait()
	defer cancel()
	viewing.Go(func() { f.shared.View.Run(ctx) })
	return f.shared.Watch(ctx, from, events)
}

// watchOwn watches the Lease until a heartbeat keeps it, and returns that version.
func (f *Followed) watchOwn(ctx context.Context, from locks.Version, events chan<- locks.Event) (locks.Version, error) {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	seen := from.Number
	err := f.WatchEach(watching, from, func(ctx context.Context, e locks.Event) error {
		if !e.Bookmark && attached(e.Snapshot.Version) {
			from = locks.Version{Number: seen, Opaque: &state{lease: e.Snapshot.Version.Opaque.(*coordinationv1.Lease)}}
			cancel()
			return ctx.Err()
		}
		seen = max(seen, e.Snapshot.Version.Number)
		e.Snapshot = f.alone(e.Snapshot)
		select {
		case events <- e:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if stateOf(from) != nil && ctx.Err() == nil {
		return from, nil
	}
	return from, err
}
