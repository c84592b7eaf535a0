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

// IsHeart reports whether a Lease is that of a heartbeat, which is no lock.
func IsHeart(lease *coordinationv1.Lease) bool {
	return lease.Labels[record.LabelRole] == record.RoleHeartbeat
}

// HeartOf returns the name of the heartbeat's Lease that keeps a lock, in the lock's
// namespace. It is empty if none does. Anybody may have written it.
func HeartOf(lock *coordinationv1.Lease) string {
	if st := stateOf(compose(lock, leasewatch.State{}).Version); st != nil {
		return st.name
	}
	return ""
}

// Compose returns what a lock's Lease and the Lease of the heartbeat that keeps it say
// together, to somebody who only looks. heart is the Lease that HeartOf names; nil if it does
// not exist. If no heartbeat keeps the lock, that is what the lock's Lease says alone.
//
// No candidate may wait or take a lock by it, for two reasons. The two Leases may be of
// different moments. And the renewTime is the latest one that the holder is known to have
// written, even if the lock's Lease was changed since. A Lock does not accept its version.
func Compose(lock, heart *coordinationv1.Lease) locks.Snapshot {
	if lock == nil {
		return locks.Snapshot{}
	}
	var beating leasewatch.State
	if heart != nil {
		beating = leasewatch.State{Lease: heart, Number: record.Number(heart.ResourceVersion)}
	}
	s := compose(lock, beating)
	s.Version.Opaque = lock
	if s.Record.Holder == "" {
		return s
	}
	s.Record.RenewTime = record.Read(lock).RenewTime
	if last := lastBeat(s, heart); last.After(s.Record.RenewTime) {
		s.Record.RenewTime = last
	}
	return s
}

// lastBeat returns the time of the last heartbeat of the epoch that keeps a lock; zero if it
// is not known.
func lastBeat(s locks.Snapshot, heart *coordinationv1.Lease) time.Time {
	switch {
	case s.Kept && s.Void == "":
		return record.Read(heart).RenewTime
	case s.Void == voidWithdrawn:
		note, _ := withdrawalOf(heart)
		return note.renew
	}
	return time.Time{}
}
