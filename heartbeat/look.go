// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/leasewatch"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// Compose returns what a lock's Lease and the Lease of the heartbeat that keeps it say
// together, to somebody who only looks, and why the holder's term is over although the lock names it;
// empty if it is not. heart is the Lease that the lock's annotation names; nil if it does
// not exist. If no heartbeat keeps the lock, that is what the lock's Lease says alone.
//
// No candidate may wait or take a lock by it, for two reasons. The two Leases may be of
// different moments. And the renewTime is the latest one that the holder is known to have
// written, even if the lock's Lease was changed since. No lock accepts its version.
func Compose(lock, heart *coordinationv1.Lease) (s locks.Snapshot, void string) {
	if lock == nil {
		return locks.Snapshot{}, ""
	}
	var beating leasewatch.State
	if heart != nil {
		beating = leasewatch.State{Lease: heart, Number: record.Number(heart.ResourceVersion)}
	}
	c := compose(lock, beating)
	c.Version.Opaque = lock
	if c.Record.Holder == "" {
		return c.Snapshot, c.void
	}
	c.Record.RenewTime = record.Read(lock).RenewTime
	if last := lastBeat(c, heart); last.After(c.Record.RenewTime) {
		c.Record.RenewTime = last
	}
	return c.Snapshot, c.void
}

// lastBeat returns the time of the last heartbeat of the epoch that keeps a lock; zero if it
// is not known.
func lastBeat(s composed, heart *coordinationv1.Lease) time.Time {
	switch {
	case s.Kept && s.void == "":
		return record.Read(heart).RenewTime
	case s.void == voidWithdrawn:
		note, _ := withdrawalOf(heart)
		return note.renew
	}
	return time.Time{}
}
