// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package lockstest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
)

// ErrInjected is wrapped in every error that Faulty injects.
var ErrInjected = errors.New("injected fault")

// Fault describes how a [Faulty] lock fails. The zero Fault is not a fault.
type Fault struct {
	// Hang makes calls do nothing until their context ends, as on a network that drops
	// everything, and makes watches fall silent.
	Hang bool
	// LoseAnswers makes writes land and then hang until their context ends.
	LoseAnswers bool
	// LoseReads makes reads hang until their context ends, too.
	LoseReads bool
	// Mute makes watches fall silent. A muted watch never sends again, like a connection
	// whose peer is gone.
	Mute bool
	// Err makes calls fail with this error at once, and watches end with it.
	Err error
	// Delay is how long a call takes before it is made, and again after it.
	Delay time.Duration
	// Hold makes reads and writes wait until the fault changes, and then makes them, like
	// those that etcd queues while it elects a leader.
	Hold bool
	// LoseWrites makes writes hang until their context ends, and never land, like those that
	// etcd forwarded to a leader that is gone.
	LoseWrites bool
	// Unstored makes writes be acknowledged and not stored, as by a cache before the server: they
	// return what was there, and an error, as [locks.Lock] wants it.
	Unstored bool
	// Late makes writes land when the fault changes, though their caller has long given
	// up, like those of a process that was stopped in the middle of a write. Until then
	// it acts like Hang.
	Late bool
}

// silent reports whether calls get no answer.
func (f Fault) silent() bool { return f.Hang || f.Late }

// Faulty is a lock that fails on demand, and counts its calls. It is safe for concurrent
// use.
type Faulty struct {
	lock locks.Lock

	mu     sync.Mutex
	fault  Fault
	change chan struct{} // closed when fault changes
	calls  map[string]int
}

// NewFaulty returns a lock that works as lock does until Set is called.
func NewFaulty(lock locks.Lock) *Faulty {
	return &Faulty{lock: lock, change: make(chan struct{}), calls: map[string]int{}}
}

// Set changes how the lock fails from now on.
func (f *Faulty) Set(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
	close(f.change)
	f.change = make(chan struct{})
}

// Calls returns how often "read", "write" and "watch" were called.
func (f *Faulty) Calls(operation string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[operation]
}

func (f *Faulty) now() (Fault, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fault, f.change
}

// enter counts a call and applies the fault before it.
func (f *Faulty) enter(ctx context.Context, operation string) error {
	f.mu.Lock()
	f.calls[operation]++
	fault, change := f.fault, f.change
	f.mu.Unlock()
	switch {
	case fault.Err != nil:
		return fmt.Errorf("%s: %w: %w", operation, ErrInjected, fault.Err)
	case fault.silent(), fault.LoseWrites && operation == "write":
		return hang(ctx, operation)
	case fault.Hold && operation != "watch":
		select {
		case <-change:
			return nil
		case <-ctx.Done():
			return hang(ctx, operation)
		}
	}
	return delay(ctx, operation, fault.Delay)
}

// leave applies the fault after a call.
func (f *Faulty) leave(ctx context.Context, operation string) error {
	fault, _ := f.now()
	if fault.silent() || fault.LoseAnswers && operation == "write" || fault.LoseReads && operation == "read" {
		return hang(ctx, operation)
	}
	return delay(ctx, operation, fault.Delay)
}

func hang(ctx context.Context, operation string) error {
	<-ctx.Done()
	return fmt.Errorf("%s: %w: %w", operation, ErrInjected, ctx.Err())
}

func delay(ctx context.Context, operation string, d time.Duration) error {
	if d > 0 && sleep.For(ctx, d) != nil {
		return hang(ctx, operation)
	}
	return nil
}

// call makes a call as the fault has it.
func (f *Faulty) call(ctx context.Context, operation string, do func() (locks.Snapshot, error)) (locks.Snapshot, error) {
	if err := f.enter(ctx, operation); err != nil {
		return locks.Snapshot{}, err
	}
	s, err := do()
	if lost := f.leave(ctx, operation); lost != nil {
		return locks.Snapshot{}, lost
	}
	return s, err
}

// Describe implements locks.Lock.
func (f *Faulty) Describe() locks.Description { return f.lock.Describe() }

// Capabilities returns those of the lock that fails.
func (f *Faulty) Capabilities() locks.Capabilities { return f.lock.Capabilities() }

// Read implements locks.Lock.
func (f *Faulty) Read(ctx context.Context) (locks.Snapshot, error) {
	return f.call(ctx, "read", func() (locks.Snapshot, error) { return f.lock.Read(ctx) })
}

// Write implements locks.Lock.
func (f *Faulty) Write(ctx context.Context, base locks.Version, record locks.Record) (locks.Snapshot, error) {
	if fault, change := f.now(); fault.Late {
		go func() {
			<-change
			_, _ = f.lock.Write(context.WithoutCancel(ctx), base, record) // nobody waits for the result
		}()
	}
	return f.call(ctx, "write", func() (locks.Snapshot, error) {
		if fault, _ := f.now(); fault.Unstored {
			s, err := f.lock.Read(ctx)
			return s, cmp.Or(err, fmt.Errorf("write: %w: acknowledged, and not stored", ErrInjected))
		}
		return f.lock.Write(ctx, base, record)
	})
}

// Watch implements locks.Lock.
func (f *Faulty) Watch(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
	if err := f.enter(ctx, "watch"); err != nil {
		return err
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	between, ended := make(chan locks.Event), make(chan error, 1)
	go func() { ended <- f.lock.Watch(inner, from, between) }()
	for {
		fault, change := f.now()
		switch {
		case fault.silent(), fault.Mute:
			cancel()
			<-ctx.Done()
			return nil
		case fault.Err != nil:
			return fmt.Errorf("watch: %w: %w", ErrInjected, fault.Err)
		}
		select {
		case e := <-between:
			if fault, _ := f.now(); fault.silent() || fault.Mute {
				continue // it was muted meanwhile
			}
			select {
			case events <- e:
			case <-ctx.Done():
				return nil
			}
		case err := <-ended:
			return err
		case <-change:
		}
	}
}
