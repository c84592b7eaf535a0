// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/leasewatch"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// Watch sends the changes of the record after version from, those by heartbeats included, see
// [locks.Lock]. It sends no request. It ends with ctx, or with ErrVersionExpired when the view
// has left something out.
func (l *lock) Watch(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
	return l.follow(from).pass(ctx, func(e locks.Event) { l.long.See(l.logger, l.Describe(), e.Snapshot.Record) }, events)
}

// pass sends the events of the feed until it or ctx ends, after it has called each with them.
func (f *feed) pass(ctx context.Context, each func(locks.Event), events chan<- locks.Event) error {
	defer f.close()
	for {
		taken, err := f.take()
		for _, e := range taken {
			each(e)
			select {
			case events <- e:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err != nil {
			return err
		}
		select {
		case <-f.sub.Ready():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// follow returns a feed of the lock that begins after a version.
func (l *lock) follow(from locks.Version) *feed {
	f := newFeed(l.view, l.name, from, l.compose)
	if was := stateOf(from); was != nil {
		f.lock = leasewatch.State{Lease: was.lease, Number: was.number()}
		f.known = f.lock.Number
		if was.heart != nil {
			f.known = max(f.known, record.Number(was.heart.ResourceVersion))
		}
	}
	return f
}

// feed follows one lock in a view. Its methods are for one goroutine.
type feed struct {
	name    string
	view    *leasewatch.View
	compose func(lease *coordinationv1.Lease, heart leasewatch.State) composed

	sub       *leasewatch.Subscription
	began     bool
	over      bool
	lock      leasewatch.State // as far as the changes are applied
	heartName string           // of the heartbeat that keeps the lock; empty if none does
	heart     leasewatch.State // of that heartbeat
	known     uint64           // the newest version of either that the feed begins after
	sent      uint64           // the version of the last snapshot
	events    []locks.Event    // not taken yet
}

// newFeed returns a feed that begins after the version from.
func newFeed(view *leasewatch.View, name string, from locks.Version, compose func(*coordinationv1.Lease, leasewatch.State) composed) *feed {
	return &feed{
		name: name, view: view, compose: compose, sub: view.Subscribe(),
		lock: leasewatch.State{Number: from.Number}, sent: from.Number,
	}
}

// close ends the feed.
func (f *feed) close() { f.sub.Close() }

// take returns the events since the last call. If the feed has ended after them, it returns why, and
// nothing more afterwards.
func (f *feed) take() ([]locks.Event, error) {
	if f.over || !f.began && !f.sub.Known() {
		return nil, nil
	}
	err := f.gather()
	events := f.events
	f.events, f.over = nil, err != nil
	return events, err
}

func (f *feed) gather() error {
	if !f.began {
		f.began = true
		if err := f.begin(); err != nil {
			return err
		}
	}
	for changes := f.sub.Take(); len(changes) > 0; changes = f.sub.Take() {
		for _, c := range changes {
			if err := f.apply(c); err != nil {
				return err
			}
		}
	}
	// The state of a heartbeat that is followed since one of these changes may be of a later
	// moment than the change. It counts now.
	if f.lock.Lease != nil && (f.sent == 0 || f.heart.Number > f.sent) {
		f.sendWith(f.heart)
	}
	return nil
}

// begin subscribes to the lock, after the state that is known.
func (f *feed) begin() error {
	f.view.Expect(max(f.known, f.lock.Number))
	switch {
	case f.sent == 0:
		f.lock = f.sub.Add(f.name)
	case !f.sub.AddAfter(f.name, f.lock.Number):
		return f.expired()
	}
	if f.lock.Lease == nil {
		return nil
	}
	f.attach()
	return nil
}

func (f *feed) expired() error {
	return fmt.Errorf("lease %s: the view of the leases has left changes out: %w", f.name, locks.ErrVersionExpired)
}

// attach follows the heartbeat that keeps the lock now.
func (f *feed) attach() {
	a, attached := attachmentOf(f.lock.Lease)
	if !attached {
		a.name = ""
	}
	if a.name == f.heartName {
		return
	}
	if f.heartName != "" {
		f.sub.Remove(f.heartName)
	}
	if f.heartName, f.heart = a.name, (leasewatch.State{}); a.name != "" {
		f.heart = f.sub.Add(a.name)
	}
}

// apply applies one change.
func (f *feed) apply(c leasewatch.Change) error {
	switch {
	case c.Name == f.name && (c.Gap || c.State.Cut), c.Name == f.heartName && c.Gap && (c.State.Number < f.sent || f.outdated()):
		return f.expired()
	case c.Name == f.name && c.State.Number > f.lock.Number:
		return f.changed(c.State)
	case c.Name == f.heartName && (c.State.Number > f.heart.Number || f.heart.Cut):
		if f.heart = c.State; f.lock.Lease != nil {
			f.sendWith(f.heart)
		}
	}
	return nil
}

// outdated reports whether the view has shown a later version of the lock's own Lease.
func (f *feed) outdated() bool {
	return f.lock.Lease != nil && f.view.Get(f.name).Number > f.lock.Number
}

// changed applies a change of the lock's own Lease. Who has not been sent the last write or the
// last heartbeats before a deletion must not take it for one without a gap: it would wait too
// short (S4).
func (f *feed) changed(now leasewatch.State) error {
	was := f.lock
	if f.lock = now; now.Lease == nil {
		if f.heart.Number > f.sent || was.Lease != nil && was.Number > f.sent {
			return f.expired()
		}
		f.send(locks.Snapshot{Version: locks.Version{Number: now.Number}})
		return nil
	}
	f.attach()
	f.sendLock()
	return nil
}

// sendLock sends the lock as its own Lease was written.
func (f *feed) sendLock() {
	heart := f.heart
	if heart.Number > f.lock.Number && !heart.Cut { // it is of a later moment
		heart = leasewatch.State{Number: unseen}
	}
	f.sendWith(heart)
}

// sendWith sends the lock with a state of its heartbeat. A Lease that is cut is there, and what
// it says is not known: then it sends nothing before the view shows it. To take it for one that
// is gone would end the term of a holder that renews it.
func (f *feed) sendWith(heart leasewatch.State) {
	if !heart.Cut {
		f.send(f.compose(f.lock.Lease, heart).Snapshot)
	}
}

func (f *feed) send(s locks.Snapshot) {
	if s.Version.Number > f.sent {
		f.sent = s.Version.Number
		f.events = append(f.events, locks.Event{Snapshot: s, Gapless: true})
	}
}
