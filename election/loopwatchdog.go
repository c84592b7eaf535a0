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
// again, and its requester by when an answer is due. There is no timer.
type loopWatchdog struct {
	mu      sync.Mutex
	loop    deadline
	request deadline
	what    operation // what the request asks
}

// deadline is the time by which something must happen; zero if nothing must.
type deadline struct {
	by      time.Time
	changes int
	suspect time.Time // when a look first found it late; zero if none did
	seen    int       // the number of changes then
}

func (v *deadline) set(by time.Time) {
	v.by = by
	v.changes++
}

// late returns how late it is, and whether it is late by more than margin and was so at
// least a secondLook ago.
func (v *deadline) late(now time.Time, margin time.Duration) (time.Duration, bool) {
	late := now.Sub(v.by)
	switch {
	case v.by.IsZero() || late <= margin:
		v.suspect = time.Time{}
	case v.suspect.IsZero() || v.seen != v.changes:
		v.suspect, v.seen = now, v.changes
	}
	return late, !v.suspect.IsZero() && now.Sub(v.suspect) >= secondLook
}

// expectLoop notes by when the loop will be back. The zero time says that it does not run.
func (p *loopWatchdog) expectLoop(by time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loop.set(by)
}

// expectAnswer notes by when a request must be over. The zero time says that none is under
// way.
func (p *loopWatchdog) expectAnswer(what operation, by time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what = what
	p.request.set(by)
}

func (p *loopWatchdog) late(margin time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if late, is := p.loop.late(now, margin); is {
		return fmt.Errorf("the elector is wedged: it has not moved for %v: a function that it was given does not return", late.Round(time.Second))
	}
	if late, is := p.request.late(now, margin); is {
		return fmt.Errorf("the elector is wedged: the lock does not return from a request (%s) that was to be over %v ago", p.what, late.Round(time.Second))
	}
	return nil
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
