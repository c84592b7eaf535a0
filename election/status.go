// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
)

// Status is what an elector knows at one moment. It is a copy, which does not change.
type Status struct {
	Lock     locks.Description
	LockUID  string // of the object that stores the newest record; empty before the first
	Identity string // of this candidate
	State    status.State
	// Holder and HolderZone are the identity that holds the lock and its zone, as far
	// as this candidate has heard, which may be late. They are empty if nobody holds
	// it, or if that is unknown.
	Holder     string
	HolderZone string
	// Term is the newest term of this candidate, or the zero Term before the first.
	// Term.TrustedFor says whether it is still trusted.
	Term Term
	// Overrun reports that the work of Term has not stopped in time, see
	// ChangeOverrun. It is false again once the work has returned.
	Overrun bool
	// Waiting is what must happen before this candidate may campaign or lead, in the
	// words of the lock's guardian or of the elector. Empty if nothing must.
	Waiting string
	// Unhealthy is why this candidate should not lead, by its own check. It also says so
	// if the candidate leads nevertheless. Nil if it is healthy.
	Unhealthy error
	// Staying is why this candidate leads on although its zone is evacuated. Empty if
	// the zone is not, or if somebody else can take over.
	Staying string
	// Problem is what keeps the elector from reading, writing or watching the lock.
	// Nil if nothing does.
	Problem error
}

// Transition is one change of an elector, with the status right after it.
type Transition struct {
	Change status.Change
	At     time.Time // wall clock
	// Cause is why the term ended, for ChangeStopping, ChangeStopped, ChangeReleased
	// and ChangeOverrun. For ChangeRefused it is why the term goes on. Otherwise nil.
	Cause  error
	Status Status
}

// board is where the loop publishes, and outsiders read and subscribe. The mutex guards
// only the fields: no outside code runs under it.
type board struct {
	mu     sync.Mutex
	status Status
	feeds  []*feed
}

func (b *board) read() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status
}

// publish changes the status, and adds the transition to every feed.
func (b *board) publish(c status.Change, cause error, change func(*Status)) Transition {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.status)
	t := Transition{Change: c, At: time.Now(), Cause: cause, Status: b.status}
	for _, f := range b.feeds {
		f.queue = append(f.queue, t)
		select {
		case f.more <- struct{}{}:
		default:
		}
	}
	return t
}

// update changes the status without a transition.
func (b *board) update(change func(*Status)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.status)
}

// subscribe gives what is published from now on to a feed.
func (b *board) subscribe(f *feed) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.feeds = append(b.feeds, f)
}

func (b *board) unsubscribe(f *feed) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.feeds = slices.DeleteFunc(b.feeds, func(other *feed) bool { return other == f })
}

// takeAll returns what a feed has got since the last call.
func (b *board) takeAll(f *feed) (all []Transition) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all, f.queue = f.queue, nil
	return all
}

// feed is what one subscriber has not read yet.
type feed struct {
	queue []Transition // guarded by the board's mutex
	more  chan struct{}
}

// Subscribe returns a channel that gets every transition from now on, in order, and is closed after
// ctx ends. A slow reader delays nobody and misses nothing; what it has not read yet stays in
// memory.
func (e *Elector) Subscribe(ctx context.Context) <-chan Transition {
	out, f := make(chan Transition), &feed{more: make(chan struct{}, 1)}
	e.board.subscribe(f)
	go func() {
		defer close(out)
		defer e.board.unsubscribe(f)
		for {
			select {
			case <-f.more:
			case <-ctx.Done():
				return
			}
			for _, t := range e.board.takeAll(f) {
				select {
				case out <- t:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return out
}
