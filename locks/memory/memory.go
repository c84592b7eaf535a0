// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memory implements a lock in the memory of one process, for tests and examples.
package memory

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/zonelect/zonelect/locks"
)

// Lock is a [locks.Lock] in memory, with versions, deletion and watches like those of
// an API server. Make one with [New]. It is safe for concurrent use. It reads no clock,
// so it works under testing/synctest.
type Lock struct {
	name  string
	count *atomic.Uint64 // of versions; shared with the locks beside it

	mu      sync.Mutex
	number  uint64 // of the newest version
	uids    int
	now     locks.Snapshot
	history []locks.Event
	expired uint64        // the newest version from which no watch can continue
	changed chan struct{} // closed at the next change
}

// New returns a lock with that name and without a record.
func New(name string) *Lock {
	return &Lock{name: name, count: &atomic.Uint64{}, changed: make(chan struct{})}
}

// Beside returns another lock whose versions come from the same counter as m's, like
// those of objects in one database.
func (m *Lock) Beside(name string) *Lock {
	return &Lock{name: name, count: m.count, changed: make(chan struct{})}
}

// Describe implements locks.Lock.
func (m *Lock) Describe() locks.Description {
	return locks.Description{Kind: "Memory", Name: m.name}
}

// Capabilities implements locks.Lock.
func (*Lock) Capabilities() locks.Capabilities { return locks.Capabilities{} }

// Read implements locks.Lock.
func (m *Lock) Read(ctx context.Context) (locks.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return locks.Snapshot{}, fmt.Errorf("reading %s: %w", m.name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.now.Version.Exists() {
		return locks.Snapshot{}, nil // like an API server: no version either
	}
	return m.now, nil
}

// Write implements locks.Lock.
func (m *Lock) Write(ctx context.Context, base locks.Version, record locks.Record) (locks.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return locks.Snapshot{}, fmt.Errorf("writing %s: %w", m.name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	exists := m.now.Version.Exists()
	if base.Exists() != exists || exists && base.Number != m.now.Version.Number {
		return locks.Snapshot{}, fmt.Errorf("writing %s at version %d: %w", m.name, base.Number, locks.ErrConflict)
	}
	uid := m.now.Version.UID
	if !exists {
		m.uids++
		uid = "uid-" + strconv.Itoa(m.uids)
	}
	m.put(locks.Snapshot{Version: locks.Version{UID: uid, Opaque: m}, Record: record})
	return m.now, nil
}

// Delete removes the record, as a person might do. It reports whether there was a record.
func (m *Lock) Delete() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.now.Version.Exists() {
		return false
	}
	m.put(locks.Snapshot{})
	return true
}

// Expire makes every watch that has not caught up end with ErrVersionExpired. Every later
// watch from an older version ends so too.
func (m *Lock) Expire() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expired = m.number
	m.wake()
}

// Restore resets the lock to its first version, with that record, as restoring a database
// from a backup does. Running watches do not report it.
func (m *Lock) Restore(record locks.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count.Store(0)
	m.expired, m.history = 0, nil
	m.put(locks.Snapshot{Version: locks.Version{UID: "restored", Opaque: m}, Record: record})
}

// put stores s under the next version. The caller holds mu.
func (m *Lock) put(s locks.Snapshot) {
	m.number = m.count.Add(1)
	s.Version.Number = m.number
	m.now = s
	m.history = append(m.history, locks.Event{Snapshot: s, Gapless: true})
	m.wake()
}

func (m *Lock) wake() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// Watch implements locks.Lock. It ends only with its context, or when the
// history it needs has expired.
func (m *Lock) Watch(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
	after := from.Number
	for first := true; ; first = false {
		news, changed, err := m.since(after, first)
		if err != nil {
			return err
		}
		for _, e := range news {
			select {
			case events <- e:
				after = e.Snapshot.Version.Number
			case <-ctx.Done():
				return nil
			}
		}
		if len(news) > 0 {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// since returns what happened after a version, and a channel that is closed
// when there is more.
func (m *Lock) since(after uint64, first bool) ([]locks.Event, <-chan struct{}, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if after == 0 && first {
		if m.now.Version.Exists() {
			return []locks.Event{{Snapshot: m.now, Gapless: true}}, m.changed, nil
		}
		after = m.number
	}
	if after < m.expired && after != 0 {
		return nil, nil, fmt.Errorf("watching %s from version %d: %w", m.name, after, locks.ErrVersionExpired)
	}
	i := sort.Search(len(m.history), func(i int) bool { return m.history[i].Snapshot.Version.Number > max(after, m.expired) })
	return slices.Clone(m.history[i:]), m.changed, nil
}
