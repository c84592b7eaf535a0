// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"fmt"
	"sync"
	"time"
)

// secondLook is how long after a first look that finds the elector stuck another look must
// find it stuck again. The first look may come right after the whole process was stopped.
const secondLook = time.Second

// loopWatchdog tells others whether the loop is alive. The loop notes by when it will look
// again. There is no timer.
type loopWatchdog struct {
	mu      sync.Mutex
	by      time.Time // when the loop must look again; zero if it does not run
	suspect time.Time // when a look first found it late; zero if none did
}

// expect notes by when the loop will look again. The zero time says that it does not run.
func (p *loopWatchdog) expect(by time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !by.Equal(p.by) {
		p.by, p.suspect = by, time.Time{}
	}
}

// late returns an error if the loop is late by more than margin and was so at least a secondLook
// ago.
func (p *loopWatchdog) late(margin time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	late := now.Sub(p.by)
	if p.by.IsZero() || late <= margin {
		return nil
	}
	if p.suspect.IsZero() {
		p.suspect = now
	}
	if now.Sub(p.suspect) < secondLook {
		return nil
	}
	return fmt.Errorf("the elector is wedged: it should have moved %v ago: the lock, or a function that it was given, does not return", late.Round(time.Second))
}

// Alive is for liveness probes. It returns an error if the elector is stuck because a
// function that it was given does not return. Only a new process helps then. Otherwise it
// returns nil.
//
// Alive returns nil if the API is down, if others lead, if the candidate is unhealthy or
// waits for permission, because restarting all replicas would only make that worse. It
// also returns nil before Run is called and after Run has returned. The elector must be
// late by a RenewDeadline, and must still be so in a second call at least a second
// later, so that a process that was stopped is not killed when it continues. Time in
// which the machine was suspended does not count.
func (e *Elector) Alive() error { return e.loopWatchdog.late(e.config.Timing.RenewDeadline) }
