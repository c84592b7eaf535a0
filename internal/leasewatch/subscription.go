// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package leasewatch

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/zonelect/zonelect/locks"
)

// Change is one change of a Lease.
type Change struct {
	Name  string
	State State
	// Gap reports that a list showed it: there may have been others before.
	Gap bool
}

// Subscription gets every change of some Leases, in the order of their versions. It keeps
// what its reader has not read yet. Its methods are for one goroutine.
type Subscription struct {
	view   *View
	number uint64 // among those of the view
	names  map[string]struct{}

	mu    sync.Mutex
	queue []Change
	ready chan struct{}
}

// Subscribe returns a subscription to no Lease yet. Close it.
func (v *View) Subscribe() *Subscription {
	v.mu.Lock()
	v.counted++
	number := v.counted
	v.mu.Unlock()
	s := &Subscription{view: v, number: number, names: map[string]struct{}{}, ready: make(chan struct{}, 1)}
	s.signal()
	return s
}

// Ready returns a channel that gets a value when there is something to take, the first time
// at once.
func (s *Subscription) Ready() <-chan struct{} { return s.ready }

// Known reports whether the view knows something. If not, Ready will tell when it does.
func (s *Subscription) Known() bool {
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	known := s.view.at != 0 && !s.view.stale
	if !known {
		s.view.waiting[s.number] = s
	}
	return known
}

// Add subscribes to a Lease too, and returns its present state, which precedes all changes
// that are pushed later. It does nothing more if that is subscribed to already. A state that is
// cut is followed by another, unless the Lease is too long.
func (s *Subscription) Add(name string) State {
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	s.add(name)
	return s.view.state(name)
}

func (s *Subscription) add(name string) {
	s.view.ask(name)
	s.names[name] = struct{}{}
	if s.view.subs[name] == nil {
		s.view.subs[name] = map[uint64]*Subscription{}
	}
	s.view.subs[name][s.number] = s
}

// AddAfter subscribes to a Lease of which the caller knows all up to a version. Take returns
// what came after that. It returns false, and does nothing, if the view does not know
// all of that any more.
func (s *Subscription) AddAfter(name string, version uint64) bool {
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	missed, known := s.view.recent.since(name, version)
	known = known && !slices.ContainsFunc(missed, func(c Change) bool { return c.State.Cut })
	if !known && s.view.state(name).Number > version {
		return false
	}
	s.add(name)
	for _, c := range missed {
		s.push(c)
	}
	return true
}

// Remove ends the subscription to a Lease. Changes of it that are kept may still come.
func (s *Subscription) Remove(name string) {
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	s.remove(name)
}

func (s *Subscription) remove(name string) {
	delete(s.names, name)
	delete(s.view.subs[name], s.number)
	if len(s.view.subs[name]) == 0 {
		delete(s.view.subs, name)
		if is := s.view.leases[name]; is.Lease == nil && !is.Cut {
			s.view.drop(name)
		}
	}
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	for name := range s.names {
		s.remove(name)
	}
	delete(s.view.waiting, s.number)
}

// Watch passes the changes of one Lease after a version to each, in order, and blocks. From
// version zero it starts with the present state, if there is one. It sends no request. It ends with
// ctx, with an error of each, or with locks.ErrVersionExpired when the view has left something out.
func (v *View) Watch(ctx context.Context, name string, from uint64, each func(context.Context, State) error) error {
	sub := v.Subscribe()
	defer sub.Close()
	v.Expect(from)
	expired := fmt.Errorf("lease %s: the view of the leases has left changes out: %w", name, locks.ErrVersionExpired)
	for began := false; ; {
		var changes []Change
		switch {
		case began:
			changes = sub.Take()
		case sub.Known():
			if began = true; from != 0 {
				if !sub.AddAfter(name, from) {
					return expired
				}
				changes = sub.Take()
				break
			}
			if now := sub.Add(name); now.Lease != nil {
				changes = []Change{{Name: name, State: now}}
			} else {
				from = now.Number
			}
		}
		for _, c := range changes {
			switch {
			case c.Gap || c.State.Cut:
				return expired
			case c.State.Number <= from:
				continue
			}
			from = c.State.Number
			if err := each(ctx, c.State); err != nil {
				return err
			}
		}
		select {
		case <-sub.Ready():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// push adds a change.
func (s *Subscription) push(c Change) {
	s.mu.Lock()
	s.queue = append(s.queue, c)
	s.mu.Unlock()
	s.signal()
}

func (s *Subscription) signal() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// Take returns the changes since the last call, without waiting.
func (s *Subscription) Take() []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	changes := s.queue
	s.queue = nil
	return changes
}
