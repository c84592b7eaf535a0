// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package twin

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/zonelect/zonelect/locks"
)

// halfWriteHold is the longest time for which a watch holds back half of a write, because
// the other half is on its way.
const halfWriteHold = time.Second

// Watch merges the watches of both locks, and ends as soon as one of them does. It only
// reports states of both, in order. It reports half of a candidate's write after a
// second, if the other half is still missing then. It reads both locks first if the
// version does not exist, and again whenever the governing lock begins or ceases to count
// alone.
func (b *both) Watch(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
	state, known := from.Opaque.(*twinState)
	w := &twinWatch{both: b, told: known}
	if known {
		w.state = *state
	} else if err := w.read(ctx); err != nil {
		return err
	} else {
		w.told = !w.state.exists()
	}
	for {
		if err := w.run(ctx, events); !errors.Is(err, errTurned) {
			return err
		}
		if err := w.read(ctx); err != nil {
			return err
		}
	}
}

// errTurned says that the governing lock has begun to count alone, or ceased to.
var errTurned = errors.New("the governing lock counts alone, or no longer does")

// twinWatch is one watch on both locks.
type twinWatch struct {
	both  *both
	state twinState
	told  bool      // the state has been reported
	since time.Time // when it was first torn and not reported; zero if it is whole
	alive bool      // a side's watch sent a bookmark
}

// read reads both locks. The result must be reported.
func (w *twinWatch) read(ctx context.Context) error {
	state, _, err := w.both.read(ctx)
	if err == nil {
		w.state, w.told, w.since = *state, false, time.Time{}
	}
	return err
}

func (w *twinWatch) run(ctx context.Context, events chan<- locks.Event) error {
	ctx, cancel := context.WithCancel(ctx)
	var sides sync.WaitGroup
	defer sides.Wait()
	defer cancel()
	ended := make(chan error, 2)
	follow := func(lock locks.Lock, from locks.Version) <-chan locks.Event {
		news := make(chan locks.Event)
		sides.Go(func() { ended <- lock.Watch(ctx, from, news) })
		return news
	}
	governing := follow(w.both.governing, w.state.governing.Version)
	var legacy <-chan locks.Event
	if !w.state.governingOnly {
		legacy = follow(w.both.legacy, w.state.legacy.Version)
	}
	for w.both.governsAlone(w.state.governing) == w.state.governingOnly {
		event, out, settle := w.next(events)
		onGoverning, onLegacy := governing, legacy
		if out != nil && !w.told {
			onGoverning, onLegacy = nil, nil // so that whoever listens late misses no state (S4)
		}
		select {
		case e := <-onGoverning:
			w.heard(e, &w.state.governing, &w.state.at.governing)
		case e := <-onLegacy:
			w.heard(e, &w.state.legacy, &w.state.at.legacy)
		case out <- event:
			w.told, w.alive, w.since = true, false, time.Time{}
		case <-time.After(settle):
		case err := <-ended:
			return err
		}
	}
	return errTurned
}

// heard applies an event of one side. It ignores an event that is not newer than the
// known state, because a lagging server sent it.
func (w *twinWatch) heard(e locks.Event, side *locks.Snapshot, mark *twinMark) {
	if e.Bookmark {
		w.alive = true
		return
	}
	if e.Snapshot.Version.Number <= side.Version.Number {
		return
	}
	*side, *mark = e.Snapshot, markOf(e.Snapshot.Version)
	if side == &w.state.legacy {
		w.both.heard(side.Record)
	}
	w.told = false
	switch {
	case !w.state.isTorn():
		w.since = time.Time{}
	case w.since.IsZero():
		w.since = time.Now()
	}
}

// next returns the event to send, and a nil channel if there is none to send yet; then
// settle is how long to wait at most before calling next again.
func (w *twinWatch) next(events chan<- locks.Event) (e locks.Event, out chan<- locks.Event, settle time.Duration) {
	settle = time.Hour
	if w.told && !w.alive {
		return e, nil, settle
	}
	if !w.told && !w.since.IsZero() {
		if left := time.Until(w.since.Add(halfWriteHold)); left > 0 {
			return e, nil, left
		}
	}
	state := w.state
	number, newest := w.both.known.watched(&state)
	if !newest {
		return e, nil, settle // one side's watch lags behind a read or a write
	}
	e.Snapshot = state.snapshot(number)
	if w.told {
		e = locks.Event{Snapshot: locks.Snapshot{Version: e.Snapshot.Version}, Bookmark: true}
	}
	return e, events, settle
}
