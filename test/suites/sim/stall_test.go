// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// gate is where each goroutine of a process passes at its steps: at requests,
// answers and events, at lines of its log, and where the elector calls its
// configuration. While the gate is shut it holds every goroutine that reaches
// it; the others, and the timers, go on.
type gate struct {
	mu   sync.Mutex
	bars chan struct{} // nil while it is open
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.bars == nil {
		g.bars = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.bars != nil {
		close(g.bars)
		g.bars = nil
	}
}

// pass reports whether it was shut.
func (g *gate) pass() bool {
	g.mu.Lock()
	bars := g.bars
	g.mu.Unlock()
	if bars != nil {
		<-bars
	}
	return bars != nil
}

// stalls is a log that now and then blocks for up to two leases, and so blocks
// the goroutine that writes to it, mostly the elector's. It stands for a
// process in which one goroutine makes no progress.
type stalls struct {
	process *process
	mu      sync.Mutex
	dice    *rand.Rand
}

func (s *stalls) stall() {
	s.process.gate.pass()
	w := s.process.world
	s.mu.Lock()
	long := some(s.dice, 2*s.process.lease)
	now := s.dice.IntN(8) == 0
	s.mu.Unlock()
	if now && !w.mended.Load() {
		w.mu.Lock()
		s.process.ail(long)
		w.mu.Unlock()
		time.Sleep(long)
	}
}

func (s *stalls) Init(logr.RuntimeInfo)          {}
func (s *stalls) Enabled(level int) bool         { return level == 0 }
func (s *stalls) Info(int, string, ...any)       { s.stall() }
func (s *stalls) Error(error, string, ...any)    { s.stall() }
func (s *stalls) WithValues(...any) logr.LogSink { return s }
func (s *stalls) WithName(string) logr.LogSink   { return s }
