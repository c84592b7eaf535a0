// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
)

// move is a lock that shall get another leader.
type move struct {
	types.NamespacedName
	from    *inspect.Leader // nil if nobody leads
	avoid   string          // the zone to leave; empty: any other leader will do
	to      *inspect.Leader // the new leader; nil until there is one
	refused string          // why the leader stays
	waits   string          // what the move waits for
	failed  error           // why the Lease could not be changed
}

// over reports whether nothing is left to wait for.
func (m *move) over() bool { return m.to != nil || m.refused != "" || m.failed != nil }

// see updates the move from the record of the lock.
func (m *move) see(r locks.Record) {
	switch leader := inspect.LeaderOf(r); {
	case leader == nil:
		m.waits = "the lock was given up, and nobody has taken it"
	case leader.Identity != m.from.Identity && (m.avoid == "" || leader.Zone != m.avoid):
		m.to = leader
	case r.Details.Request != "":
		m.waits = leader.Identity + " has not answered"
	default:
		m.refused = r.Details.Refused
		m.waits = leader.Identity + " still leads"
	}
}

// await looks at the Leases until each move is over. It also returns after the timeout or when ctx ends, which is not
// an error.
func (c cluster) await(ctx context.Context, timeout time.Duration, moves []*move) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for ; ctx.Err() == nil; _ = sleep.For(ctx, lookInterval/2) {
		pending := map[types.NamespacedName]*move{}
		for _, m := range moves {
			if !m.over() {
				pending[m.NamespacedName] = m
			}
		}
		if len(pending) == 0 {
			return nil
		}
		look, done := context.WithTimeout(ctx, lookTimeout)
		list, err := c.Leases(look, c.namespace)
		done()
		if errors.Is(err, locks.ErrForbidden) {
			return err
		}
		for i := range list { // none after another error: the next look may succeed
			if m := pending[inspect.KeyOf(&list[i])]; m != nil {
				m.see(record.Read(&list[i]))
			}
		}
	}
	return nil
}

// dryRunUsage describes the flag of a command that changes something.
const dryRunUsage = "Check everything, and change nothing."

// conflicts bounds how often a change of a Lease is retried because another client wrote the
// Lease meanwhile. Its leader does so every few seconds.
const conflicts = 10

// change changes a Lease by compare-and-swap, unless do leaves it unchanged.
func (c cluster) change(ctx context.Context, lock types.NamespacedName, do func(*coordinationv1.Lease) error) error {
	id := apierror.Object{Resource: apierror.Leases, Namespace: lock.Namespace, Name: lock.Name}
	object := rawapi.New[coordinationv1.Lease](c.Coordination, id)
	conflict := func(err error) bool { return errors.Is(err, locks.ErrConflict) }
	return retry.OnError(wait.Backoff{Steps: conflicts}, conflict, func() error {
		lease, err := object.Get(ctx)
		if err != nil {
			return err
		}
		changed := lease.DeepCopy()
		if err := do(changed); err != nil || equality.Semantic.DeepEqual(lease, changed) {
			return err
		}
		_, err = object.Update(ctx, changed)
		return err
	})
}

// annotate sets an annotation, or deletes it where value is empty.
func annotate(lease *coordinationv1.Lease, key, value string) {
	if value == "" {
		delete(lease.Annotations, key)
		return
	}
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, key, value)
}
