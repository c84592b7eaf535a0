// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/sleep"
)

// legacyInterval is how often a legacy object is read.
const legacyInterval = 5 * time.Second

// follower prints a lock whenever it changes.
type follower struct {
	*statusCommand
	name  string // of the one lock; empty for all
	known map[types.NamespacedName]*known
	out   *rows // nil until something was found
	live  *live // nil if lines are appended

	denied string    // what was told of missing rights
	broke  string    // what was told of a watch that broke
	said   time.Time // when that was told
}

// known is what a follower knows of one Lease, and of the lock of that name.
type known struct {
	lock    inspect.Election // its Lease
	since   time.Time        // when it was last seen to be written or renewed
	changed bool             // that was since the watch began

	legacy inspect.LegacyLock
	read   time.Time // when legacy was read

	shows any       // the part of the last line whose change is worth another line; nil without a line
	notes []string  // the notes that were printed with it
	told  time.Time // when it was printed
}

// follow prints the present locks, and a line on each change, until ctx ends.
func (s *statusCommand) follow(ctx context.Context, name string) error {
	f := &follower{statusCommand: s, name: name, known: map[types.NamespacedName]*known{}}
	if s.printer.forPeople() && s.env.capable() {
		f.live = newLive(s)
	}
	reports := 0 // the second comes when the server has accepted the watch
	for all, err := range s.cluster.follow(ctx) {
		if err == nil {
			err = f.reportSoon(ctx, all)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && reports < 2:
			return err
		case err != nil:
			f.restarting(err)
			_ = sleep.For(ctx, retry)
			continue
		}
		if reports++; reports == 2 && f.out == nil && f.live == nil {
			err = f.tellNothing(ctx)
		} else if reports == 2 && f.live != nil && f.live.empty() {
			_, err = f.cluster.checkNamespace(ctx, "")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reportSoon reports, or fails: a request on a dead connection must not stop the reports.
func (f *follower) reportSoon(ctx context.Context, all leases) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	return f.report(ctx, all)
}

// report prints what has changed.
func (f *follower) report(ctx context.Context, all leases) error {
	f.replace(all)
	now := map[types.NamespacedName]inspect.Election{}
	found := f.elections(all)
	f.zones.Find(ctx, found)
	for _, e := range found {
		now[e.NamespacedName] = e
	}
	for key, k := range f.known {
		if _, is := now[key]; !is && k.shows != nil {
			now[key] = inspect.Election{NamespacedName: key}
		}
	}
	keys := sorted(now)
	rows := make([]LockStatus, len(keys))
	for i, key := range keys {
		var err error
		if rows[i], err = f.look(ctx, now[key]); err != nil {
			return err
		}
	}
	if f.live != nil {
		for _, key := range keys {
			f.of(key).shows = key // it stays when it is deleted
		}
		return f.live.show(rows)
	}
	if f.out == nil && len(rows) > 0 {
		f.out = f.printer.rows(f.env.streams.Out, rows, f.env.now())
	}
	for i, key := range keys {
		if err := f.tell(f.of(key), rows[i]); err != nil {
			return err
		}
	}
	f.tellDeniedOnce()
	return nil
}

// tellDeniedOnce says once what could not be read about those who are next.
func (f *follower) tellDeniedOnce() {
	if note := f.vitals.note(); note != f.denied && f.printer.forPeople() {
		f.denied = note
		f.env.tell("%s\n", note)
	}
}

// of returns what is known of a lock.
func (f *follower) of(key types.NamespacedName) *known {
	if f.known[key] == nil {
		f.known[key] = &known{}
	}
	return f.known[key]
}

// replace notes which Leases exist now, and which of them have changed.
func (f *follower) replace(all leases) {
	maps.DeleteFunc(f.known, func(key types.NamespacedName, k *known) bool {
		if all[key] == nil {
			k.lock = inspect.Election{}
		}
		return k.lock.Lease == nil && k.shows == nil
	})
	for key := range all {
		k, now := f.of(key), inspect.Election{NamespacedName: key, Lease: all[key]}
		if k.lock.Lease == now.Lease {
			continue
		}
		if now.RenewedSince(k.lock) {
			k.since, k.changed = time.Now(), k.lock.Lease != nil
		}
		k.lock = now
	}
}

// elections returns the elections among the Leases: that of the one lock, or all.
func (f *follower) elections(all leases) []inspect.Election {
	list := make([]coordinationv1.Lease, 0, len(all))
	for _, key := range sorted(all) {
		list = append(list, *all[key])
	}
	found := inspect.Among(list)
	if f.name != "" {
		found = []inspect.Election{inspect.Named(list, f.cluster.lock(f.name))}
	}
	for i := range found {
		if k := f.of(found[i].NamespacedName); k.lock.Lease != nil {
			lasts := k.lock.Lasts()
			watched := time.Since(k.since)
			found[i].Watched = inspect.Watched{For: watched, Renewed: k.changed && watched < max(lasts, reportInterval), Ago: watched}
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

// tell prints one lock if something about it has changed. It prints only the notes that were
// not printed with the line before.
func (f *follower) tell(k *known, status LockStatus) error {
	shows, now := f.printer.shows(status), f.env.now()
	if reflect.DeepEqual(k.shows, shows) {
		return nil
	}
	before := k.notes
	k.shows, k.notes, k.told = shows, notes(status), time.Now()
	err := f.out.print(status, now)
	if f.printer.forPeople() {
		tellAll(f.env.streams.ErrOut, slices.DeleteFunc(slices.Clone(k.notes), func(note string) bool { return slices.Contains(before, note) }))
	}
	return err
}

// look returns the status of a lock. At first it is an error if the requested lock does not
// exist. It reads the legacy object again once in a while, and more often when something has
// just changed: a leader follows the phase.
func (f *follower) look(ctx context.Context, e inspect.Election) (LockStatus, error) {
	k, every := f.of(e.NamespacedName), legacyInterval
	if time.Since(k.told) < 2*legacyInterval {
		every = reportInterval
	}
	if time.Since(k.read) >= every {
		now := time.Now()
		read := inspect.Election{NamespacedName: e.NamespacedName, Lease: e.Lease}
		if err := f.cluster.Legacy(ctx, &read); err != nil {
			return LockStatus{}, err
		}
		k.legacy, k.read = read.LegacyLock, now
	}
	notes := e.Notes
	e.LegacyLock = k.legacy
	e.Notes = slices.Concat(e.Notes, notes)
	if k.shows == nil && e.Nothing() && f.name != "" {
		return LockStatus{}, f.cluster.absent(ctx, f.name)
	}
	if f.name != "" {
		if err := f.vitals.look(ctx, e.Namespace, e.Candidates); err != nil {
			return LockStatus{}, err
		}
	}
	return f.describe(ctx, e)
}

// restarting says that the watch broke, or was refused. It says the same once a minute.
func (f *follower) restarting(err error) {
	if f.live != nil {
		f.live.trouble(err)
		return
	}
	if text := err.Error(); text != f.broke || time.Since(f.said) >= time.Minute {
		f.broke, f.said = text, time.Now()
		f.env.tell("note: restarting the watch: %s\n", text)
	}
}
