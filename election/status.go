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

// Status is a snapshot of what an elector knows.
type Status struct {
	Lock     locks.Description
	LockUID  string // of the newest record known; empty before the first
	Identity string
	State    status.State
	// Holder and HolderZone are who holds the lock as far as this candidate
	// has heard, which may be late; empty where nobody does or it is unknown.
	Holder     string
	HolderZone string
	// Term is this candidate's own last term, and the zero Term before the
	// first. Ask it whether it is still trusted.
	Term Term
	// Overrun says that the work of Term has not stopped in time, see
	// ChangeOverrun; false again once it has.
	Overrun bool
	// Waiting says what the lock's guardian, or the elector, waits for before this
	// candidate may campaign or lead; empty while it waits for nothing.
	Waiting string
	// Unhealthy is why this candidate should not lead, as its own check has it,
	// and that it leads nonetheless if it does; nil while it is well.
	Unhealthy error
	// Staying says why this candidate leads on although its zone is evacuated;
	// empty where it does not have to.
	Staying string
	// Problem is what keeps the elector from reading, writing or watching the
	// lock; nil while all is well.
	Problem error
}

// Transition is one change of an elector, with the status right after it.
type Transition struct {
	Change status.Change
	At     time.Time // wall clock
	// Cause is why the term ended, for ChangeStopping up to ChangeOverrun, and
	// why it goes on, for ChangeRefused.
	Cause  error
	Status Status
}

// board is where the loop publishes, and outsiders read and subscribe. The
// mutex guards nothing but the fields: nobody is called under it.
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
