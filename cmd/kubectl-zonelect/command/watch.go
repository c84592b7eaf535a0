// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
)

// lookInterval is how often a command looks that waits for something, and lookTimeout bounds each look: the
// connection may be dead.
const lookInterval, lookTimeout = time.Second, 10 * time.Second

// conflicts bounds how often a change of a Lease is retried because another client wrote the
// Lease meanwhile. Its leader does so every few seconds.
const conflicts = 10

// change changes a Lease by compare-and-swap, unless do leaves it unchanged.
func (c cluster) change(ctx context.Context, lock types.NamespacedName, do func(*coordinationv1.Lease) error) (*coordinationv1.Lease, error) {
	object := rawapi.New[coordinationv1.Lease](c.Coordination, apierror.Object{Resource: apierror.Leases, Namespace: lock.Namespace, Name: lock.Name})
	for tries := 1; ; tries++ {
		lease, err := object.Get(ctx)
		if err != nil {
			return nil, err
		}
		changed := lease.DeepCopy()
		if err := do(changed); err != nil {
			return lease, err
		}
		if equality.Semantic.DeepEqual(lease, changed) {
			return lease, nil
		}
		if changed, err = object.Update(ctx, changed); err == nil || !errors.Is(err, locks.ErrConflict) || tries == conflicts {
			return changed, err
		}
	}
}

// annotate sets an annotation, or deletes it where value is empty.
func annotate(lease *coordinationv1.Lease, key, value string) {
	if value == "" {
		delete(lease.Annotations, key)
		return
	}
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, key, value)
}

// follow prints the present locks, and a line on each change that it sees, until ctx ends. It looks once a second.
func (s *statusCommand) follow(ctx context.Context, args []string) error {
	type seen struct {
		lock inspect.Election
		at   time.Time // when it was last seen to be renewed, or first
		says string
	}
	known, broke := map[types.NamespacedName]*seen{}, ""
	for first := true; ctx.Err() == nil; first = false {
		look, done := context.WithTimeout(ctx, lookTimeout)
		found, err := s.find(look, args)
		done()
		switch {
		case err != nil && (first || errors.Is(err, locks.ErrForbidden)) && ctx.Err() == nil:
			return err
		case err != nil && err.Error() != broke && ctx.Err() == nil:
			broke = err.Error()
			s.env.tell("note: %s\n", broke)
		case err == nil:
			broke = ""
		}
		if err == nil && first && len(found) == 0 {
			err = s.tellNothing(ctx)
		}
		gone := maps.Clone(known)
		for _, e := range found {
			delete(gone, e.NamespacedName)
			k := known[e.NamespacedName]
			if k == nil {
				k = &seen{at: time.Now()}
				known[e.NamespacedName] = k
			} else if e.RenewedSince(k.lock) {
				k.at = time.Now()
			}
			e.Watched.For = time.Since(k.at)
			e.Watched.Renewed = k.lock.Lease != nil && e.Watched.For < max(e.Lasts(), lookInterval)
			k.lock = e
			k.says = s.tellChange(e, k.says)
		}
		for key, k := range gone {
			if err == nil {
				k.says = s.tellChange(inspect.Election{NamespacedName: key}, k.says)
			}
		}
		if err != nil && first {
			return err
		}
		_ = sleep.For(ctx, lookInterval)
	}
	return nil
}

// tellChange prints a lock if something has changed since it was printed, and returns what it says now.
func (s *statusCommand) tellChange(e inspect.Election, before string) string {
	status := s.describe(e)
	says := fmt.Sprintf("%s/%s: %s, %s", e.Namespace, e.Name, status.Status.State, leaderCell(status.Status))
	if zone := zoneCell(status.Status); zone != "" {
		says += " in " + zone
	}
	if phase := status.Status.Phase; phase != "" {
		says += ", phase " + string(phase)
	}
	switch {
	case says == before:
	case s.printer.forPeople():
		tell(s.env.streams.Out, "%s  %s\n", s.env.now().UTC().Format(timeFormat), says)
	default:
		_ = s.printer.row(s.env.streams.Out, status, s.env.now()) // a stream that fails ends the program
	}
	return says
}
