// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"context"
	"errors"
	"sync"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/electiontest"
)

var (
	errCrashed = errors.New("this process is no more")
	refusals   = overloaded
)

// inMemory are candidates for a lock in memory: what the elector alone does.
var inMemory = &population{
	name: "memory", seats: 3, steps: 200, timings: timings,
	faults: []fault{
		cut, cut, oneWay, mute, lose, slow, refuse, pause, outage,
		crash, crash, crash, restart, restart, resign, resign, remove, empty, compact,
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
	p.elect(l)
}

func (m *memory) harm(s step) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch s.fault {
	case remove:
		if m.lock.Delete() {
			m.world.judge.wrote(nil, nil)
		}
	case empty:
		now, _ := m.lock.Read(context.Background())
		if now.Version.Exists() {
			now.Record.Holder = ""
			_, _ = m.lock.Write(context.Background(), now.Version, now.Record)
			m.world.judge.wrote(nil, &now.Record)
		}
	case compact:
		m.lock.Expire()
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
	l.memory.mu.Lock()
	defer l.memory.mu.Unlock()
	s, err := l.Memory.Write(ctx, base, r)
	if err == nil {
		l.memory.world.judge.wrote(l.by, &s.Record)
	}
	return s, err
}
