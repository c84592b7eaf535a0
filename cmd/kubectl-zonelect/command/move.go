// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/record"
)

// move is a lock that shall get another leader.
type move struct {
	lock    types.NamespacedName
	from    inspect.Leader
	avoid   string          // the zone to leave; empty: any other leader will do
	asked   uint64          // the version of the Lease that asks for it, or the first that was not seen
	to      *inspect.Leader // the new leader; nil until there is one
	refused string          // why the leader stays
	waits   string          // what the move waits for
}

// over reports whether nothing is left to wait for.
func (m *move) over() bool { return m.to != nil || m.refused != "" }

// see updates the move from a version of the lock, which has a Lease. That a heartbeat's Lease notes
// a release leaves the version of the lock's own Lease as it was.
func (m *move) see(lock inspect.Election) {
	r := lock.Snapshot().Record
	leader := inspect.LeaderOf(r)
	version := record.Number(lock.Lease.ResourceVersion)
	if version < m.asked && (leader != nil || version+1 < m.asked) {
		return
	}
	m.asked = version + 1
	switch {
	case leader == nil:
		m.waits = m.from.Identity + " gave the lock up, and nobody has taken it"
	case leader.Identity != m.from.Identity && (m.avoid == "" || leader.Zone != m.avoid):
		m.to, m.refused = leader, ""
	case leader.Identity != m.from.Identity:
		m.from = *leader
		m.waits = leader.Identity + " took over, in zone " + leader.Zone + " too"
	case r.Details.Request != "":
		m.waits = leader.Identity + " has not answered"
	default:
		m.refused = r.Details.Refused
		m.waits = leader.Identity + " still leads: its work may take long to stop"
	}
}

// await watches the Leases until each move is over, and calls tell for it. It also
// returns when ctx ends, which is no error.
func (c cluster) await(ctx context.Context, moves []*move, tell func(*move)) error {
	pending := slices.Clone(moves)
	if len(pending) == 0 {
		return nil
	}
	for all, err := range c.follow(ctx) {
		if all == nil {
			return err
		}
		pending = slices.DeleteFunc(pending, func(m *move) bool {
			if lock := inspect.At(m.lock, all.find); lock.Lease != nil {
				m.see(lock)
			}
			if m.over() {
				tell(m)
			}
			return m.over()
		})
		if len(pending) == 0 {
			break
		}
	}
	return nil
}
