// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/record"
)

const (
	// reportInterval is how often a watched lock is looked at although no event came.
	reportInterval = time.Second
	// legacyInterval is how often a legacy object is read.
	legacyInterval = 5 * time.Second
)

// follower prints a lock whenever it changes.
type follower struct {
	*statusCommand
	name string // of the one lock; empty for all

	leases map[types.NamespacedName]*tracked
	told   map[types.NamespacedName]*line
	legacy map[types.NamespacedName]*lookedAt
	out    io.Writer // nil until something was found
	begun  bool      // the watch was once accepted
}

// tracked is a Lease and when it was last seen to change.
type tracked struct {
	lease   *coordinationv1.Lease
	since   time.Time
	changed bool // since the watch began
}

// line is what was printed last about a lock.
type line struct {
	shows any // of it, what a change of is worth another line
	notes []string
	at    time.Time
}

// lookedAt is a legacy object and when it was read.
type lookedAt struct {
	inspect.LegacyLock
	at time.Time
}

// follow prints what there is, and a line on each change, until ctx ends.
func (s *statusCommand) follow(ctx context.Context, name string) error {
	f := &follower{
		statusCommand: s, name: name,
		leases: map[types.NamespacedName]*tracked{},
		told:   map[types.NamespacedName]*line{},
		legacy: map[types.NamespacedName]*lookedAt{},
	}
	for ctx.Err() == nil {
		next := time.After(retry)
		err := f.round(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !f.begun:
			return err
		case err != nil:
			s.env.tell("note: the watch is begun again: %v\n", err)
		}
		select {
		case <-next:
		case <-ctx.Done():
		}
	}
	return nil
}

// round lists and then watches, until the watch ends.
func (f *follower) round(ctx context.Context) error {
	list, err := f.cluster.Leases(ctx, f.cluster.namespace)
	if err != nil {
		return err
	}
	f.replace(list.Items)
	if err := f.report(ctx); err != nil {
		return err
	}
	events, err := f.cluster.watchLeases(ctx, list.ResourceVersion)
	if err != nil {
		return err
	}
	defer events.Stop()
	if !f.begun && len(f.told) == 0 {
		if err := f.tellNothing(ctx); err != nil {
			return err
		}
	}
	f.begun = true
	ticks := time.NewTicker(reportInterval)
	defer ticks.Stop()
	for {
		select {
		case e, open := <-events.ResultChan():
			if !open {
				return nil
			}
			if err := f.take(e); err != nil {
				return err
			}
		case <-ticks.C:
		case <-ctx.Done():
			return nil
		}
		if err := f.report(ctx); err != nil {
			return err
		}
	}
}

// replace puts a list in the place of what is known.
func (f *follower) replace(leases []coordinationv1.Lease) {
	listed := map[types.NamespacedName]bool{}
	for i := range leases {
		f.put(&leases[i])
		listed[inspect.KeyOf(&leases[i])] = true
	}
	maps.DeleteFunc(f.leases, func(key types.NamespacedName, _ *tracked) bool { return !listed[key] })
}

// take applies one event.
func (f *follower) take(e watch.Event) error {
	lease, ok := e.Object.(*coordinationv1.Lease)
	switch {
	case e.Type == watch.Error:
		err := apierrors.FromObject(e.Object)
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			return nil // the watch ends now, and a list comes next
		}
		return apierror.Object{Resource: apierror.Leases, Namespace: f.cluster.namespace}.Explain(apierror.Watch, err)
	case !ok:
		return nil
	case e.Type == watch.Deleted:
		delete(f.leases, inspect.KeyOf(lease))
	case e.Type == watch.Added || e.Type == watch.Modified:
		f.put(lease)
	}
	return nil
}

func (f *follower) put(lease *coordinationv1.Lease) {
	known := f.leases[inspect.KeyOf(lease)]
	switch {
	case known == nil:
		f.leases[inspect.KeyOf(lease)] = &tracked{lease: lease, since: time.Now()}
	case equality.Semantic.DeepEqual(known.lease.Spec, lease.Spec):
		known.lease = lease
	default:
		*known = tracked{lease: lease, since: time.Now(), changed: true}
	}
}

// report prints what has changed.
func (f *follower) report(ctx context.Context) error {
	now := map[types.NamespacedName]inspect.Election{}
	for _, found := range f.found() {
		now[found.NamespacedName] = found
	}
	for key := range f.told {
		if _, is := now[key]; !is {
			now[key] = inspect.Election{NamespacedName: key}
		}
	}
	keys := sorted(now)
	all := make([]LockStatus, 0, len(keys))
	for _, key := range keys {
		status, err := f.look(ctx, key, now[key])
		if err != nil {
			return err
		}
		all = append(all, status)
	}
	if f.out == nil && len(all) > 0 {
		f.out = f.printer.rows(f.env.streams.Out, all, f.env.now())
	}
	for i, key := range keys {
		if err := f.tell(key, all[i]); err != nil {
			return err
		}
	}
	return nil
}

// found are the locks among the Leases: the one that is asked for, or all.
func (f *follower) found() []inspect.Election {
	leases := make([]coordinationv1.Lease, 0, len(f.leases))
	for _, key := range sorted(f.leases) {
		leases = append(leases, *f.leases[key].lease)
	}
	found := inspect.Among(leases)
	if f.name != "" {
		found = []inspect.Election{inspect.Named(leases, f.cluster.lock(f.name))}
	}
	for i := range found {
		if t := f.leases[found[i].NamespacedName]; t != nil {
			lasts := record.Read(t.lease).LeaseDuration
			watched := time.Since(t.since)
			found[i].Watched = inspect.Watched{For: watched, Renewed: t.changed && watched < max(lasts, reportInterval)}
		}
	}
	return found
}

// sorted returns the keys by namespace, then by name.
func sorted[V any](m map[types.NamespacedName]V) []types.NamespacedName {
	return slices.SortedFunc(maps.Keys(m), func(a, b types.NamespacedName) int {
		return slices.Compare([]string{a.Namespace, a.Name}, []string{b.Namespace, b.Name})
	})
}

// tell prints one lock if something about it has changed, and of its notes those
// that were not printed with the line before.
func (f *follower) tell(key types.NamespacedName, status LockStatus) error {
	before := f.told[key]
	if before == nil {
		before = &line{}
	}
	shows, now := f.printer.shows(status), f.env.now()
	if reflect.DeepEqual(before.shows, shows) {
		return nil
	}
	said := notes(status)
	f.told[key] = &line{shows, said, time.Now()}
	err := errors.Join(f.printer.row(f.out, status, now), flush(f.out))
	if f.printer.forPeople() {
		tellAll(f.env.streams.ErrOut, slices.DeleteFunc(slices.Clone(said), func(note string) bool { return slices.Contains(before.notes, note) }))
	}
	return err
}

// look says what is known of a lock. That the one that is asked for does not exist
// is an error at first.
func (f *follower) look(ctx context.Context, key types.NamespacedName, found inspect.Election) (LockStatus, error) {
	before := f.told[key]
	if err := f.addLegacy(ctx, key, &found, before); err != nil {
		return LockStatus{}, err
	}
	if before == nil && found.Nothing() && f.name != "" {
		return LockStatus{}, f.cluster.absent(ctx, f.name)
	}
	return describe(found, f.env.now()), nil
}

// addLegacy adds the legacy object. It reads it again once in a while, and more
// often when something has just changed: a leader follows the phase.
func (f *follower) addLegacy(ctx context.Context, key types.NamespacedName, found *inspect.Election, told *line) error {
	every := legacyInterval
	if told != nil && time.Since(told.at) < 2*legacyInterval {
		every = reportInterval
	}
	last := f.legacy[key]
	if last == nil || time.Since(last.at) >= every {
		now := time.Now()
		read := inspect.Election{NamespacedName: key, Lease: found.Lease}
		if err := f.cluster.Legacy(ctx, &read); err != nil {
			return err
		}
		last = &lookedAt{read.LegacyLock, now}
		f.legacy[key] = last
	}
	found.LegacyLock = last.LegacyLock
	return nil
}
