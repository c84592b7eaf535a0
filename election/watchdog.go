// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// watchdog sees whether the work of one term stops in time. It waits for
// nothing that may hang: not for the elector's loop, nor for a log or a lock.
type watchdog struct {
	timing   Timing
	returned chan struct{} // closed when the work has returned
	late     atomic.Bool   // it had not when its time was over
	tell     func()        // tells the program so, once
}

func newWatchdog(c Config, term Term, cause func() error) *watchdog {
	w := &watchdog{timing: c.Timing, returned: make(chan struct{}), tell: func() {}}
	if c.OnOverrun != nil {
		w.tell = sync.OnceFunc(func() { c.OnOverrun(term, cause()) })
	}
	return w
}

// watch returns when the work has returned, or is late. The context of the work
// ends when a stop is wanted, and trusted when the term's trust does.
func (w *watchdog) watch(work, trusted context.Context) {
	var by time.Time
	limit := time.NewTimer(longest)
	defer limit.Stop()
	within := func(patience time.Duration) {
		if at := time.Now().Add(patience); by.IsZero() || at.Before(by) {
			by = at
			limit.Reset(patience)
		}
	}
	for wanted, over := work.Done(), trusted.Done(); ; {
		select {
		case <-w.returned:
			return
		case <-wanted:
			wanted = nil
			within(w.patience(context.Cause(work)))
		case <-over:
			over = nil
			within(w.timing.StopGrace)
		case <-limit.C:
			if !w.done() {
				w.late.Store(true)
				w.tell()
			}
			return
		}
	}
}

// patience is how long the work may take to stop, by why it is to.
func (w *watchdog) patience(cause error) time.Duration {
	if errors.Is(cause, ErrLost) {
		return w.timing.StopGrace
	}
	return w.timing.StopTimeout
}

// done reports whether the work has returned.
func (w *watchdog) done() bool {
	select {
	case <-w.returned:
		return true
	default:
		return false
	}
}

// overdue reports whether the work is late and goes on. A nil watchdog is that
// of an elector before its first term.
func (w *watchdog) overdue() bool { return w != nil && w.late.Load() && !w.done() }
