// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
)

// workWatchdog checks whether the work of one term stops in time. It waits for nothing that
// may hang, such as the elector's loop, a log or a lock.
type workWatchdog struct {
	timing   Timing
	term     Term
	work     context.Context // ends when the work is to stop
	returned chan struct{}   // closed when the work has returned
	late     chan struct{}   // closed if it has not returned when its time is over
	released atomic.Bool     // the lock has been released since
	tell     func()          // tells the program that it is late, once
}

func newWorkWatchdog(work context.Context, c Config, term Term) *workWatchdog {
	w := &workWatchdog{timing: c.Timing, term: term, work: work, returned: make(chan struct{}), late: make(chan struct{}), tell: func() {}}
	if c.OnOverrun != nil {
		w.tell = sync.OnceFunc(func() { c.OnOverrun(term, context.Cause(work)) })
	}
	return w
}

// watch returns when the work has returned, or is late.
func (w *workWatchdog) watch() {
	var by time.Time
	limit := time.NewTimer(rules.Longest)
	defer limit.Stop()
	within := func(patience time.Duration) {
		if at := time.Now().Add(patience); by.IsZero() || at.Before(by) {
			by = at
			limit.Reset(patience)
		}
	}
	for wanted, over := w.work.Done(), w.term.trust.over.Done(); ; {
		select {
		case <-w.returned:
			return
		case <-wanted:
			wanted = nil
			within(w.patience(context.Cause(w.work)))
		case <-over:
			over = nil
			within(w.timing.StopGrace)
		case <-limit.C:
			if !closed(w.returned) {
				close(w.late)
				w.tell()
			}
			return
		}
	}
}

// patience is how long the work may take to stop, depending on the cause.
func (w *workWatchdog) patience(cause error) time.Duration {
	if errors.Is(cause, ErrLost) {
		return w.timing.StopGrace
	}
	return w.timing.StopTimeout
}

// closed reports whether c is closed, if nothing is ever sent on it.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// overdue reports whether the work is late and goes on. A nil workWatchdog is that
// of an elector before its first term.
func (w *workWatchdog) overdue() bool { return w != nil && closed(w.late) && !closed(w.returned) }

// runs reports whether ctx was made from the work's context.
func (w *workWatchdog) runs(ctx context.Context) bool {
	term, found := TermFromContext(ctx)
	return found && w != nil && term.trust == w.term.trust
}
