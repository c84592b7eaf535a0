// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/zonelect/zonelect/internal/metrics"
	"github.com/zonelect/zonelect/locks"
)

// watcher keeps one watch on the lock, in a goroutine of its own.
type watcher struct {
	lock   locks.Lock
	events chan locks.Event // of the watch that runs; nil before the first
	ended  chan error
	began  time.Time
	heard  time.Time     // when the watch last said anything
	resume locks.Version // the version from which the next watch goes on
	newest uint64        // the last version that the watch reported
	after  uint64        // the watch leaves out nothing from this version on; zero if that is not known
	cancel context.CancelFunc
	again  time.Time // when to start the next; zero while one runs
	pauses *pauses
	wait   sync.WaitGroup

	restarted func(after string) // called at the start of each watch but the first
	over      string             // how the last watch ended; empty if it runs, or was ended for another
}

// start ends the watch that runs, if any, and begins another one.
func (w *watcher) start(ctx context.Context) {
	w.cancel()
	if !w.began.IsZero() {
		w.restarted(cmp.Or(w.over, metrics.WatchReplaced))
	}
	w.over = ""
	w.ended, w.again = make(chan error, 1), time.Time{}
	w.began = time.Now()
	w.heard = w.began
	from := w.resume
	if from.Number == 0 || from.Number != w.newest { // it does not go on where the last one ended
		w.after = from.Number
	}
	ctx, cancel := context.WithCancel(ctx)
	events, ended := make(chan locks.Event), w.ended
	w.events, w.cancel = events, cancel
	w.wait.Go(func() { ended <- w.lock.Watch(ctx, from, events) })
}

// resumeAt has the next watch go on from a version.
func (w *watcher) resumeAt(v locks.Version) { w.resume = v }

// running reports whether a watch is under way.
func (w *watcher) running() bool { return w.ended != nil }

// due reports whether no watch runs and the next should start.
func (w *watcher) due(now time.Time) bool { return !w.running() && !now.Before(w.again) }

// earlier is t, or when the next watch is due if that comes first.
func (w *watcher) earlier(t time.Time) time.Time {
	if !w.running() && !w.again.IsZero() && w.again.Before(t) {
		return w.again
	}
	return t
}

// hear notes an event's arrival.
func (w *watcher) hear(e locks.Event, now time.Time) {
	w.heard = now
	w.resume, w.newest = e.Snapshot.Version, e.Snapshot.Version.Number
	if w.after == 0 {
		w.after = w.newest
	}
	w.pauses.reset()
}

// end notes that the watch ended with err, and when to start the next: after turn if the
// watch ended without an error and was not short, else after a longer pause.
func (w *watcher) end(err error, now time.Time, turn time.Duration) {
	w.cancel()
	w.over = metrics.Result(err)
	w.ended, w.events, w.again = nil, nil, now.Add(turn)
	if errors.Is(err, locks.ErrVersionExpired) {
		w.resume = locks.Version{}
	}
	if err != nil || now.Sub(w.began) < time.Second {
		w.again = w.again.Add(w.pauses.next())
	}
}

// watchEnded notes that the watch is over.
func (r *run) watchEnded(err error) {
	r.watcher.end(err, time.Now(), r.currentStagger())
	if !errors.Is(err, locks.ErrVersionExpired) {
		r.report.result(opWatch, err)
	}
}
