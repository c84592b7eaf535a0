// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/leasewatch"
	"github.com/zonelect/zonelect/locks"
)

// Watch sends the changes of the record after version from, those by heartbeats included, see
// [locks.Lock]. It sends no request. It ends with ctx, or with ErrVersionExpired when the View
// has left something out.
func (l *Lock) Watch(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
	w := &watch{name: l.name, view: l.View, compose: compose, events: events, sent: from.Number, lock: leasewatch.State{Number: from.Number}}
	if was := stateOf(from); was != nil {
		w.lock = leasewatch.State{Lease: was.lease, Number: was.number()}
	}
	return w.run(ctx)
}

// watch follows one lock in a View.
type watch struct {
	name    string
	view    *leasewatch.View
	compose func(lease *coordinationv1.Lease, heart leasewatch.State) locks.Snapshot
	events  chan<- locks.Event

	sub       *leasewatch.Subscription
	lock      leasewatch.State
	heartName string           // of the heartbeat that keeps the lock; empty if none does
	heart     leasewatch.State // of that heartbeat
	sent      uint64           // the version of the last snapshot
}

// run watches until ctx ends. It begins after the state of the lock that it is given.
func (w *watch) run(ctx context.Context) error {
	if err := w.view.Known(ctx); err != nil {
		return err
	}
	w.view.Expect(w.lock.Number)
	w.sub = w.view.Subscribe()
	defer w.sub.Close()
	switch {
	case w.sent == 0:
		w.lock = w.sub.Add(w.name)
	case !w.sub.AddAfter(w.name, w.lock.Number):
		return w.expired()
	}
	if w.lock.Lease != nil {
		w.attach()
	}
	for changes := w.sub.Take(); ; changes = w.sub.Next(ctx) {
		for ; len(changes) > 0; changes = w.sub.Take() {
			if err := w.apply(ctx, changes); err != nil {
				return err
			}
		}
		if w.lock.Lease != nil && (w.sent == 0 || w.heart.Number > w.sent) {
			if err := w.send(ctx, w.compose(w.lock.Lease, w.heart)); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

func (w *watch) expired() error {
	return fmt.Errorf("lease %s: the view of the leases has left changes out: %w", w.name, locks.ErrVersionExpired)
}

// attach follows the heartbeat that keeps the lock now.
func (w *watch) attach() {
	a, attached := attachmentOf(w.lock.Lease)
	if !attached || a.name == w.name {
		a.name = ""
	}
	if a.name == w.heartName {
		return
	}
	if w.heartName != "" {
		w.sub.Remove(w.heartName)
	}
	if w.heartName, w.heart = a.name, (leasewatch.State{}); a.name != "" {
		w.heart = w.sub.Add(a.name)
	}
}

// apply applies changes in their order.
func (w *watch) apply(ctx context.Context, changes []leasewatch.Change) error {
	for _, c := range changes {
		switch {
		case c.Name == w.name && c.Gap, c.Gap && c.Name == w.heartName && c.State.Number < w.sent:
			return w.expired()
		case c.Name == w.name && c.State.Number > w.lock.Number:
			if err := w.changed(ctx, c.State); err != nil {
				return err
			}
		case c.Name == w.heartName && c.State.Number > w.heart.Number:
			w.heart = c.State
			if w.lock.Lease == nil {
				continue
			}
			if err := w.send(ctx, w.compose(w.lock.Lease, w.heart)); err != nil {
				return err
			}
		}
	}
	return nil
}

// changed applies a change of the lock's own Lease. The state of a heartbeat that is followed
// only now may be of a later moment than the change: it counts once all changes up to it are
// applied.
func (w *watch) changed(ctx context.Context, now leasewatch.State) error {
	if w.lock = now; now.Lease == nil {
		return w.send(ctx, locks.Snapshot{Version: locks.Version{Number: now.Number}})
	}
	w.attach()
	if w.heart.Number > now.Number {
		return w.send(ctx, w.compose(now.Lease, leasewatch.State{Number: unseen}))
	}
	return w.send(ctx, w.compose(now.Lease, w.heart))
}

func (w *watch) send(ctx context.Context, s locks.Snapshot) error {
	if s.Version.Number <= w.sent {
		return nil
	}
	w.sent = s.Version.Number
	select {
	case w.events <- locks.Event{Snapshot: s, Gapless: true}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
