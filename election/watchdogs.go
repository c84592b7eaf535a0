// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// workWatchdog checks whether the work of one term stops in time. It waits for nothing that
// may hang, such as the elector's loop, a log or a lock. It consists of timers: as long as the
// work may go on, it costs no goroutine.
type workWatchdog struct {
	timing  Timing
	term    Term
	work    context.Context // ends when the work is to stop
	tell    func()          // tells the program that it is late, once
	unwatch func()          // undoes watch

	mu       sync.Mutex // no outside code runs under it
	late     bool       // the work had not returned when its time was over
	returned bool       // the work has returned
	err      error      // what it returned
	by       time.Time  // when the time of the work is over; zero while it may go on
	limit    *time.Timer
}

func newWorkWatchdog(work context.Context, c Config, term Term) *workWatchdog {
	w := &workWatchdog{timing: c.Timing, term: term, work: work, tell: func() {}}
	if c.OnOverrun != nil {
		w.tell = sync.OnceFunc(func() { c.OnOverrun(term, w.cause(context.Cause(work))) })
	}
	return w
}

// cause is why the term ended, with the work's own word if it says that part of it goes on.
func (w *workWatchdog) cause(ended error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !errors.Is(w.err, ErrUnfinished) || w.late {
		return ended
	}
	return fmt.Errorf("%w: %w", ended, w.err)
}

// watch is called before the work begins.
func (w *workWatchdog) watch() {
	unwatchWork := context.AfterFunc(w.work, func() {
		patience := w.timing.StopTimeout
		if errors.Is(context.Cause(w.work), ErrLost) {
			patience = w.timing.StopGrace
		}
		w.within(patience)
	})
	unwatchTrust := context.AfterFunc(w.term.trust.over, w.grace)
	w.unwatch = func() {
		unwatchWork()
		unwatchTrust()
	}
}

// notice is the least time that work has to return, unless the StopGrace is shorter, so that a process
// is not ended for having slept.
const notice = 100 * time.Millisecond

// graceLeft is how much time the work has once trust is over: a StopGrace from the end of trust.
func (w *workWatchdog) graceLeft() time.Duration {
	return max(min(notice, w.timing.StopGrace), w.timing.StopGrace-w.term.trust.overFor())
}

// grace gives the work what is left of the StopGrace. It looks again, because timers stand still
// while the machine is suspended.
func (w *workWatchdog) grace() {
	left, check := w.graceLeft(), w.timing.RenewInterval/4
	if w.within(left) && left > check {
		time.AfterFunc(check, w.grace)
	}
}

// within gives the work so much time from now on, unless it has less already. It reports whether the
// work goes on.
func (w *workWatchdog) within(patience time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	by := time.Now().Add(patience)
	if w.returned || !w.by.IsZero() && !by.Before(w.by) {
		return !w.returned
	}
	if w.limit != nil {
		w.limit.Stop()
	}
	w.by, w.limit = by, time.AfterFunc(patience, w.timeOver)
	return true
}

// timeOver is called when the time of the work is over. The elector's loop waits until tell
// has returned, see [leadership.reportOverrun].
func (w *workWatchdog) timeOver() {
	w.mu.Lock()
	goesOn := !w.returned
	w.late = w.late || goesOn
	w.mu.Unlock()
	if goesOn {
		w.tell()
	}
}

// workReturned is called when the work has returned.
func (w *workWatchdog) workReturned(err error) {
	w.unwatch()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.returned, w.err = true, err; w.limit != nil {
		w.limit.Stop()
	}
}

// wasLate reports whether the work was late, or still is.
func (w *workWatchdog) wasLate() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.late
}

// overdue reports whether the work is late and goes on. A nil workWatchdog is that
// of an elector before its first term.
func (w *workWatchdog) overdue() bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.late && !w.returned
}

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
	return fmt.Errorf("the elector has been stuck for %v: the lock, or a function that it was given, does not return", late.Round(time.Second))
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
