// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
)

// lookInterval is how often a command looks that waits for something, and lookTimeout bounds each look: the
// connection may be dead.
const lookInterval, lookTimeout = time.Second, 10 * time.Second

// watchedLock is a lock as follow knows it.
type watchedLock struct {
	lock inspect.Election
	at   time.Time // when it was last seen to be renewed, or first
	says string    // what was printed
}

// follow prints the present locks, and a line on each change that it sees, until ctx ends.
func (s *statusCommand) follow(ctx context.Context, args []string) error {
	known, broke := map[types.NamespacedName]*watchedLock{}, ""
	for first := true; ctx.Err() == nil; first = false {
		look, done := context.WithTimeout(ctx, lookTimeout)
		found, err := s.find(look, args)
		done()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && (first || errors.Is(err, locks.ErrForbidden)):
			return err
		case err == nil && first && len(found) == 0:
			s.env.tell(noLocks, s.cluster.scope())
		case err != nil && err.Error() != broke:
			s.env.tell("note: %s\n", err)
		}
		if err == nil {
			s.tellChanges(known, found)
			broke = ""
		} else {
			broke = err.Error()
		}
		_ = sleep.For(ctx, lookInterval)
	}
	return nil
}

// tellChanges prints the locks that have changed since they were printed.
func (s *statusCommand) tellChanges(known map[types.NamespacedName]*watchedLock, found []inspect.Election) {
	gone := maps.Clone(known)
	for _, e := range found {
		delete(gone, e.NamespacedName)
		k := known[e.NamespacedName]
		if k == nil {
			k = &watchedLock{at: time.Now()}
			known[e.NamespacedName] = k
		} else if e.RenewedSince(k.lock) {
			k.at, k.lock.Watched.Renewed = time.Now(), true
		}
		e.Watched.For = time.Since(k.at)
		e.Watched.Renewed = k.lock.Watched.Renewed && e.Watched.For < max(e.Lasts(), lookInterval)
		k.lock = e
		k.says = s.tellChange(e, k.says)
	}
	for key := range gone {
		s.tellChange(inspect.Election{NamespacedName: key}, "")
		delete(known, key)
	}
}

// tellChange prints a lock if something has changed since it was printed, and returns what it says now.
func (s *statusCommand) tellChange(e inspect.Election, before string) string {
	status := e.Status(s.env.now())
	says := e.String() + ": " + string(status.State)
	if leader, zone, _ := leads(status); leader != "" && status.State != inspect.Absent {
		says += ", " + leader
		if zone != "" {
			says += " in zone " + zone
		}
	}
	if status.Phase != "" {
		says += ", phase " + string(status.Phase)
	}
	switch {
	case says == before:
	case s.printer.objects != nil:
		// A stream that fails ends the program.
		_ = s.printer.object(s.env.streams.Out, kindOfStatus, e.NamespacedName, lockStatus(status))
	default:
		tell(s.env.streams.Out, "%s  %s\n", s.env.now().UTC().Format(timeFormat), says)
	}
	return says
}
