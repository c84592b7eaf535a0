// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package shield

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// watch is the keeper's watch on the ConfigMap, in a goroutine of its own.
type watch struct {
	events  chan watchEvent
	opened  chan struct{} // signaled when the server has accepted the watch
	ended   chan error    // nil while no watch runs
	heard   time.Time
	from    uint64 // where the next watch continues; zero means at the newest version known
	stopped bool
	cancel  context.CancelFunc
}

// watchEvent is one event of the watch.
type watchEvent struct {
	record   ownerref.Record
	bookmark bool
}

func (w *watch) running() bool { return w.ended != nil }

// stop ends the running watch, if there is one; the keeper gets its end as an event.
func (w *watch) stop() {
	if w.running() {
		w.stopped = true
		w.cancel()
	}
}

// startWatch continues where the last watch ended, so that it misses no event, or starts
// at the newest version that is known. If the history since then is gone, it begins with
// the current ConfigMap: the version of a ConfigMap that has not changed for long is too
// old to watch from.
func (k *keeper) startWatch(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	events, opened, ended := make(chan watchEvent), make(chan struct{}, 1), make(chan error, 1)
	from := cmp.Or(k.watch.from, k.state.record.Number)
	if k.state.expired {
		from = 0
	}
	k.watch = watch{events: events, opened: opened, ended: ended, heard: time.Now(), from: from, cancel: cancel}
	pass := func(ctx context.Context, r ownerref.Record, bookmark bool) error {
		select {
		case events <- watchEvent{r, bookmark}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	k.wait.Go(func() {
		ended <- k.shield.configMap.Watch(ctx, from, func() { opened <- struct{}{} }, pass)
	})
}

// handleEvent applies an event of the watch to the state.
func (k *keeper) handleEvent(s watchEvent) {
	k.watch.heard, k.watch.from = time.Now(), s.record.Number
	switch {
	case s.bookmark:
	case k.doing == putUp && s.record.Kind == ownerref.Shield:
		k.early = append(k.early, s.record) // perhaps the one being created: the answer to the request will tell
	default:
		k.leave(k.state.observe(s.record, time.Now()))
	}
}

// watchOpened handles the server's acceptance of a watch. If events were missed, a read
// then shows what has happened before.
func (k *keeper) watchOpened() {
	if k.state.expired {
		k.state.expired, k.state.gap, k.state.known = false, true, false
	}
	k.watch.heard, k.state.neverWatched, k.state.watchRefusal = time.Now(), false, ""
	k.watchRetries.Reset()
}

// watchEnded handles the end of the watch. If the watch failed, the keeper reads the
// ConfigMap before it tries the next watch, so a leader that cannot watch reads at least
// every RenewInterval.
func (k *keeper) watchEnded(err error) {
	k.watch.cancel()
	expired := errors.Is(err, locks.ErrVersionExpired)
	if err != nil && !k.watch.stopped {
		k.state.known = false
		if !expired || k.state.expired { // otherwise retry at once
			k.watchAt = time.Now().Add(k.watchRetries.NextBackOff())
		}
		if errors.Is(err, locks.ErrForbidden) { // that does not fix itself
			if k.state.watchRefusal != err.Error() {
				k.shield.log().Error(err, "cannot watch the ConfigMap", "readEvery", k.shield.config.Timing.RenewInterval)
			}
			k.state.watchRefusal = err.Error()
		}
	}
	k.watch = watch{heard: k.watch.heard, from: k.watch.from}
	k.state.expired = k.state.expired || expired
	k.state.gap = k.state.gap || k.state.expired
}
