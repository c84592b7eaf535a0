// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/electiontest"
)

var (
	errCrashed = errors.New("this process is no more")
	refusals   = overloaded
)

// inMemory are candidates for a lock in memory: what the elector alone does.
var inMemory = &population{
	name: "memory", seats: 3, steps: 200, mixes: ourMixes,
	faults: []fault{
		cut, cut, oneWay, mute, lose, slow, refuse, pause, outage,
		freeze, freeze, sicken, crash, crash, crash, restart, restart, resign, resign, give, give,
		remove, hide, empty, compact, ask, empties, retime, meddle, meddle, meddle,
	},
	cluster: func(w *world) cluster { return &memory{world: w, lock: electiontest.NewMemory("lock")} },
}

type memory struct {
	world *world
	lock  *electiontest.Memory
	mu    sync.Mutex // from before a write until the judge has heard of it
}

func (m *memory) join(p *process) {
	l := electiontest.NewFaulty(&judged{m.lock, m, p})
	p.link = l
	p.elect(gated{l, &p.gate})
}

func (m *memory) harm(s step) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch s.fault {
	case remove, hide:
		if m.lock.Delete() {
			m.world.judge.wrote(nil, nil)
		}
	case empty:
		m.change(func(r *election.Record) { r.Holder = "" })
	case forge:
		m.change(func(r *election.Record) { r.Holder, r.LeaseDuration, r.RenewTime = "", time.Second, time.Now() })
	case bare:
		m.change(func(r *election.Record) { r.LeaseDuration, r.RenewTime, r.AcquireTime = 0, time.Time{}, time.Time{} })
	case ask:
		m.change(func(r *election.Record) { r.Details.Request = election.HandoverRequest{Holder: r.Holder}.String() })
	case empties:
		m.change(func(r *election.Record) { r.Evacuated = zoneOf(s) })
	case compact:
		m.lock.Expire()
	}
}

// noZone is the degree of a step that ends an evacuation.
const noZone = 3 * time.Millisecond

// zoneOf is the zone that is to be evacuated from a step on; empty for none.
func zoneOf(s step) string {
	if n := s.degree / time.Millisecond % 5; n < noZone/time.Millisecond {
		return fmt.Sprint("z", int(n))
	}
	return ""
}

// change changes the record by hand, if it exists. The caller holds mu.
func (m *memory) change(do func(*election.Record)) {
	now, _ := m.lock.Read(context.Background())
	if now.Version.Exists() {
		do(&now.Record)
		_, _ = m.lock.Write(context.Background(), now.Version, now.Record)
		m.world.judge.wrote(nil, &now.Record)
	}
}

func (m *memory) restart(p *process) { m.world.restart(p) }

func (m *memory) mend() {}

// judged tells the judge of each write that lands.
type judged struct {
	*electiontest.Memory
	memory *memory
	by     *process
}

func (l *judged) Write(ctx context.Context, base election.Version, r election.Record) (election.Snapshot, error) {
	return l.tell(func() (election.Snapshot, error) { return l.Memory.Write(ctx, base, r) })
}

func (l *judged) Amend(ctx context.Context, before, r election.Record) (election.Snapshot, error) {
	return l.tell(func() (election.Snapshot, error) { return l.Memory.Amend(ctx, before, r) })
}

func (l *judged) tell(write func() (election.Snapshot, error)) (election.Snapshot, error) {
	l.memory.mu.Lock()
	defer l.memory.mu.Unlock()
	s, err := write()
	if err == nil {
		l.memory.world.judge.wrote(l.by, &s.Record)
	}
	return s, err
}

// gated is a lock of a process that may be frozen before each call and after it.
type gated struct {
	election.Lock
	gate *gate
}

func (g gated) Read(ctx context.Context) (election.Snapshot, error) {
	g.gate.pass()
	defer g.gate.pass()
	return g.Lock.Read(ctx)
}

func (g gated) Write(ctx context.Context, base election.Version, r election.Record) (election.Snapshot, error) {
	g.gate.pass()
	defer g.gate.pass()
	return g.Lock.Write(ctx, base, r)
}

func (g gated) Amend(ctx context.Context, before, r election.Record) (election.Snapshot, error) {
	amender, ok := g.Lock.(election.Amender)
	if !ok {
		return election.Snapshot{}, election.ErrNoAPI
	}
	g.gate.pass()
	defer g.gate.pass()
	return amender.Amend(ctx, before, r)
}

func (g gated) Watch(ctx context.Context, from election.Version, events chan<- election.Event) error {
	g.gate.pass()
	defer g.gate.pass()
	return g.Lock.Watch(ctx, from, events)
}
