// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
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
	newest *published
}

// published is a transition in a list that each subscriber reads at its own pace.
type published struct {
	Transition
	next     *published
	followed chan struct{} // closed once next is set
}

func (b *board) read() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status
}

// publish changes the status, and appends the transition to the list.
func (b *board) publish(c status.Change, cause error, change func(*Status)) Transition {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.status)
	t := Transition{Change: c, At: time.Now(), Cause: cause, Status: b.status}
	b.newest.next = &published{Transition: t, followed: make(chan struct{})}
	close(b.newest.followed)
	b.newest = b.newest.next
	return t
}

// update changes the status without a transition.
func (b *board) update(change func(*Status)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.status)
}

// Subscribe returns a channel that gets every transition from now on, in order, and is closed after
// ctx ends. A slow reader delays nobody and misses nothing; what it has not read yet stays in
// memory.
func (e *Elector) Subscribe(ctx context.Context) <-chan Transition {
	out := make(chan Transition)
	e.board.mu.Lock()
	defer e.board.mu.Unlock()
	last := e.board.newest
	go func() {
		defer close(out)
		for {
			select {
			case <-last.followed:
				last = last.next
			case <-ctx.Done():
				return
			}
			select {
			case out <- last.Transition:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}
