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
	mu          sync.Mutex
	status      Status
	subscribers []*subscription
}

func (b *board) read() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status
}

// publish changes the status and tells every subscriber.
func (b *board) publish(c status.Change, cause error, change func(*Status)) Transition {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.status)
	t := Transition{Change: c, At: time.Now(), Cause: cause, Status: b.status}
	for _, s := range b.subscribers {
		s.add(t)
	}
	return t
}

// update changes the status without a transition.
func (b *board) update(change func(*Status)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.status)
}

func (b *board) subscribe(ctx context.Context) <-chan Transition {
	s := &subscription{out: make(chan Transition), more: make(chan struct{}, 1)}
	b.mu.Lock()
	b.subscribers = append(b.subscribers, s)
	b.mu.Unlock()
	go func() {
		s.relay(ctx)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.subscribers = slices.DeleteFunc(b.subscribers, func(o *subscription) bool { return o == s })
	}()
	return s.out
}

// subscription queues transitions, so that a slow reader never holds up the
// elector and misses nothing.
type subscription struct {
	mu    sync.Mutex
	queue []Transition
	more  chan struct{}
	out   chan Transition
}

func (s *subscription) add(t Transition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, t)
	select {
	case s.more <- struct{}{}:
	default:
	}
}

func (s *subscription) takeAll() []Transition {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.queue
	s.queue = nil
	return all
}

func (s *subscription) relay(ctx context.Context) {
	defer close(s.out)
	for {
		select {
		case <-s.more:
		case <-ctx.Done():
			return
		}
		for _, t := range s.takeAll() {
			select {
			case s.out <- t:
			case <-ctx.Done():
				return
			}
		}
	}
}
