// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/zonelect/zonelect/locks"
)

// stream is one watch.
type stream struct {
	events chan locks.Event
	ended  chan error
	cancel context.CancelFunc
	newest uint64 // the last version that the watch reported
	after  uint64 // the watch leaves out nothing from this version on; zero if that is not known
}

// watcher keeps one watch on the lock, in a goroutine of its own. One that is doubted is kept until another
// has said something.
type watcher struct {
	stream
	kept   *stream // the last that said anything, until the one that is to replace it does; nil if none is to
	lock   locks.Lock
	began  time.Time
	heard  time.Time     // when the watch last said anything
	resume locks.Version // the version from which the next watch goes on
	again  time.Time     // when to start the next; zero while one runs
	pauses *pauses
	wait   *sync.WaitGroup
}

// start begins another watch. It keeps the one that runs, if any, until the new one says something.
func (w *watcher) start(ctx context.Context) {
	if was := w.stream; w.running() && w.kept == nil {
		w.kept = &was
	} else {
		w.cancel()
	}
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
	if w.kept != nil {
		w.kept.cancel()
		w.kept = nil
	}
	w.heard = now
	w.resume, w.newest = e.Snapshot.Version, e.Snapshot.Version.Number
	if w.after == 0 {
		w.after = w.newest
	}
	w.pauses.reset()
}

// end notes that the watch ended with err. The one that it was to replace goes on, or else end notes when to
// start the next: after turn if the watch ended without an error and was not short, else after a longer pause.
func (w *watcher) end(err error, now time.Time, turn time.Duration) {
	w.cancel()
	if errors.Is(err, locks.ErrVersionExpired) {
		w.resume = locks.Version{}
	}
	if w.kept != nil {
		w.stream, w.kept, w.heard = *w.kept, nil, now
		return
	}
	w.ended, w.events, w.again = nil, nil, now.Add(turn)
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
