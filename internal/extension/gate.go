// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"context"
	"sync/atomic"

	"github.com/zonelect/zonelect/locks"
)

// Gate keeps a lock of a Group from being taken where a legacy lock counts too (M12). Its methods are
// safe for concurrent use.
type Gate struct {
	Lock  string
	Allow func(ctx context.Context, lock string) error // see Place; nil allows all

	allowed atomic.Bool // no legacy lock counts, as far as is known
}

// MayWrite returns why r may not be written, if it takes the lock. It asks until the answer is that
// the lock may be taken.
func (g *Gate) MayWrite(ctx context.Context, r locks.Record) error {
	if acquires := r.Holder != "" && r.Details.Token == 0; !acquires || g.Allow == nil || g.allowed.Load() {
		return nil
	}
	err := g.Allow(ctx, g.Lock)
	g.allowed.Store(err == nil)
	return err
}

// Observe has MayWrite ask again after a phase in which a legacy lock counts: the Lease that says so
// may be deleted. It returns s.
func (g *Gate) Observe(s locks.Snapshot) locks.Snapshot {
	if s.Barred != "" {
		g.allowed.Store(false)
	}
	return s
}
