// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
)

// LockMove is what happened to the leader of one lock, or in a dry run would happen. It is
// printed, and never stored.
type LockMove struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	From *inspect.Leader `json:"from,omitempty"`
	To   *inspect.Leader `json:"to,omitempty"`
	// Successor is who was asked for; nil for whoever comes first.
	Successor *locks.Successor `json:"successor,omitempty"`
	Result    string           `json:"result"`
	Why       string           `json:"why,omitempty"`
	DryRun    bool             `json:"dryRun,omitempty"`
}

// DeepCopyObject makes it a runtime.Object; see LockStatus.
func (m *LockMove) DeepCopyObject() runtime.Object { c := *m; return &c }

// LockMoveList holds several.
type LockMoveList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []LockMove `json:"items"`
}

// DeepCopyObject does the same for a list.
func (l *LockMoveList) DeepCopyObject() runtime.Object { c := *l; return &c }

func newLockMove(lock types.NamespacedName) LockMove {
	return LockMove{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiVersion, Kind: "LockMove"},
		ObjectMeta: metav1.ObjectMeta{Namespace: lock.Namespace, Name: lock.Name},
	}
}

// move is a lock that shall get another leader.
type move struct {
	lock    types.NamespacedName
	from    inspect.Leader
	locate  func(*inspect.Leader) // adds the zone to a leader that does not say it
	request string                // what the leader is asked besides; empty if nothing
	avoid   string                // the zone to leave; empty: any other leader will do
	asked   uint64                // the version of the Lease that asks for it, or the first that was not seen
	to      *inspect.Leader       // the new leader; nil until there is one
	refused string                // why the leader stays
	waits   string                // what the move waits for
}

// over reports whether nothing is left to wait for.
func (m *move) over() bool { return m.to != nil || m.refused != "" }

// see updates the move from a version of the lock, which has a Lease.
func (m *move) see(lock inspect.Election) {
	r := lock.Snapshot().Record
	leader := inspect.LeaderOf(r)
	version := record.Number(lock.Lease.ResourceVersion)
	if version < m.asked && (leader != nil || version+1 < m.asked) {
		return
	}
	m.asked = version + 1
	if leader != nil {
		m.locate(leader)
	}
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
	case leader.Transitions != m.from.Transitions:
		m.waits = leader.Identity + " handed the lock over, nobody else took it, and it leads again"
	default:
		m.refused = r.Details.Refused
		m.waits = leader.Identity + " still leads: its work may take long to stop"
	}
}

// await looks at the Leases until each move is over, and calls tell for it. It also
// returns when ctx ends, which is not an error.
func (c cluster) await(ctx context.Context, moves []*move, tell func(*move)) error {
	for pending := slices.Clone(moves); len(pending) > 0 && ctx.Err() == nil; _ = sleep.For(ctx, lookInterval/2) {
		look, done := context.WithTimeout(ctx, lookTimeout)
		list, err := c.Leases(look, c.namespace)
		done()
		if errors.Is(err, locks.ErrForbidden) {
			return err
		}
		for i := range list { // none after another error: the next look may succeed
			lock := inspect.Election{NamespacedName: inspect.KeyOf(&list[i]), Lease: &list[i]}
			pending = slices.DeleteFunc(pending, func(m *move) bool {
				if m.lock != lock.NamespacedName {
					return false
				}
				if m.see(lock); m.over() {
					tell(m)
				}
				return m.over()
			})
		}
	}
	return nil
}
