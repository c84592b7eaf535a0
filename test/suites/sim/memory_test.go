// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/zonelect/zonelect/internal/requests"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
	"github.com/zonelect/zonelect/locks/memory"
)

var errCrashed = errors.New("this process is no more")

// inMemory are candidates for a lock in memory: the elector on its own.
var inMemory = &population{
	name: "memory", seats: 3, steps: 200, mixes: ourMixes,
	faults: []fault{
		cut, cut, oneWay, mute, lose, slow, refuse, pause, outage, pretend, putBack, putBack,
		freeze, freeze, sicken, crash, crash, crash, restart, restart, resign, resign, ask, ask,
		remove, hide, empty, compact, ask, empties, retime, meddle, meddle, meddle,
	},
	cluster: func(w *world) cluster { return &oneLock{world: w, lock: memory.New("lock")} },
}

type oneLock struct {
	world *world
	lock  *memory.Lock
	mu    sync.Mutex // from before a write until the judge has seen it
}

func (m *oneLock) join(p *process) {
	l := lockstest.NewFaulty(&judged{m.lock, m, p})
	p.link = l
	p.elect(gated{l, p.gate})
}

func (m *oneLock) harm(s step) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch s.fault {
	case remove, hide:
		if m.lock.Delete() {
			m.world.judge.wrote(nil, nil)
		}
	case empty:
		m.change(func(r *locks.Record) {
			if r.Holder = ""; m.world.replaces(s) {
				*r = locks.Record{}
			}
		})
	case forge:
		m.change(func(r *locks.Record) { r.Holder, r.LeaseDuration, r.RenewTime = "", time.Second, time.Now() })
	case bare:
		m.change(func(r *locks.Record) { r.LeaseDuration, r.RenewTime, r.AcquireTime = 0, time.Time{}, time.Time{} })
	case ask:
		to := m.world.successor(s)
		m.change(func(r *locks.Record) {
			r.Details.Request = requests.FormatHandover(requests.Handover{Holder: r.Holder, Successor: to})
		})
	case empties:
		m.change(func(r *locks.Record) { r.Evacuated = zoneOf(s) })
	case putBack:
		if earlier := m.world.earlier(); earlier != nil {
			m.change(func(r *locks.Record) { *r = *earlier })
		}
	case compact:
		m.lock.Expire()
	}
}

// earlier is the last record of the term before, if somebody may put it back: all that campaign have seen
// who led since, and wait for it as long as they would for that one. What client-go's have seen is not
// known, so nobody was cut off lately. The next process of its holder's seat, which cannot know who led
// since, has no process lock.
func (w *world) earlier() *locks.Record {
	all := w.current()
	w.mu.Lock()
	troubled := slices.ContainsFunc(all, func(p *process) bool {
		return time.Since(p.well) < 2*w.mix.interval()+w.mix.attempt()
	})
	w.mu.Unlock()
	if troubled {
		return nil
	}
	w.judge.mu.Lock()
	defer w.judge.mu.Unlock()
	now := &w.judge.lease
	before := now.replaced
	if before == nil || before.by == nil || w.population.coarse || before.record.LeaseDuration < now.lasts {
		return nil
	}
	if slices.ContainsFunc(all, func(p *process) bool {
		return p.elector == nil && p.seat == before.by.seat || p.elector != nil && p.elector.Status().Holder != now.holder
	}) {
		return nil
	}
	before.by.back.Store(true)
	return &before.record
}

// successor is whom a request for a handover asks for: the first that comes, or a candidate by name.
func (w *world) successor(s step) (to locks.Successor) {
	if next := w.current(); s.degree%2 == 0 && len(next) > 0 {
		to.Identity = next[int(s.degree/time.Millisecond)%len(next)].name
	}
	return to
}

// noZone is the degree of a step that ends an evacuation.
const noZone = 3 * time.Millisecond

// zoneOf is the zone that is evacuated from a step on; empty for none.
func zoneOf(s step) string {
	if n := s.degree / time.Millisecond % 5; n < noZone/time.Millisecond {
		return fmt.Sprint("z", int(n))
	}
	return ""
}

// change edits the record by hand, if it exists. The caller holds mu.
func (m *oneLock) change(do func(*locks.Record)) {
	now, _ := m.lock.Read(context.Background())
	if now.Version.Exists() {
		do(&now.Record)
		_, _ = m.lock.Write(context.Background(), now.Version, now.Record)
		m.world.judge.wrote(nil, &now.Record)
	}
}

// mend gives the record a duration if it does not say how long its holder leads, as a person does: no
// candidate that never saw a duration takes it.
func (m *oneLock) mend() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, _ := m.lock.Read(context.Background())
	if r := now.Record; m.world.over || r.LeaseDuration > 0 || r.Holder == "" && r.Details.Token == 0 {
		return
	}
	m.change(func(r *locks.Record) { r.LeaseDuration, r.RenewTime = m.world.mix.lease(), time.Now() })
}

// judged reports each write that lands to the judge.
type judged struct {
	*memory.Lock
	memory *oneLock
	by     *process
}

func (l *judged) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	l.memory.mu.Lock()
	defer l.memory.mu.Unlock()
	s, err := l.Lock.Write(ctx, base, r)
	if err == nil {
		l.memory.world.judge.wrote(l.by, &s.Record)
	}
	return s, err
}

// gated is a lock of a process that may be frozen before and after each call.
type gated struct {
	locks.Lock
	gate *gate
}

func (g gated) Read(ctx context.Context) (locks.Snapshot, error) {
	g.gate.pass()
	defer g.gate.pass()
	return g.Lock.Read(ctx)
}

func (g gated) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	g.gate.pass()
	defer g.gate.pass()
	return g.Lock.Write(ctx, base, r)
}

func (g gated) Watch(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
	g.gate.pass()
	defer g.gate.pass()
	return g.Lock.Watch(ctx, from, events)
}
