// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// stalls is a log that takes its time now and then, up to two leases, and with
// it the goroutine that writes to it: the elector's, for the most part. It
// stands for a process of which one goroutine does not get on.
type stalls struct {
	world *world
	mu    sync.Mutex
	dice  *rand.Rand
}

func (s *stalls) stall() {
	s.mu.Lock()
	long := some(s.dice, 2*s.world.timing.LeaseDuration)
	now := s.dice.IntN(8) == 0
	s.mu.Unlock()
	if now && !s.world.mended.Load() {
		time.Sleep(long)
	}
}

func (s *stalls) Init(logr.RuntimeInfo)          {}
func (s *stalls) Enabled(level int) bool         { return level == 0 }
func (s *stalls) Info(int, string, ...any)       { s.stall() }
func (s *stalls) Error(error, string, ...any)    { s.stall() }
func (s *stalls) WithValues(...any) logr.LogSink { return s }
func (s *stalls) WithName(string) logr.LogSink   { return s }
