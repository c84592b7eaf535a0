// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"sync"
)

// feed is a channel of an elector's transitions. Its methods are safe for concurrent use.
type feed struct {
	out  chan Transition
	more chan struct{}

	mu    sync.Mutex // no outside code runs under it
	queue []Transition
	ended bool
}

// Subscribe returns a channel that gets every transition from now on, in order, and is closed after
// ctx ends. A slow reader delays nobody and misses nothing; what it has not read yet stays in
// memory.
func (e *Elector) Subscribe(ctx context.Context) <-chan Transition {
	f := &feed{out: make(chan Transition), more: make(chan struct{}, 1)}
	e.board.subscribe(f)
	go f.relay(ctx)
	return f.out
}

// add queues a transition, and never blocks. It reports whether the feed goes on.
func (f *feed) add(t Transition) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return false
	}
	f.queue = append(f.queue, t)
	select {
	case f.more <- struct{}{}:
	default:
	}
	return true
}

// over reports whether the feed has ended.
func (f *feed) over() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended
}

func (f *feed) takeAll() []Transition {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.queue
	f.queue = nil
	return all
}

func (f *feed) relay(ctx context.Context) {
	defer f.end()
	for {
		select {
		case <-f.more:
		case <-ctx.Done():
			return
		}
		for _, t := range f.takeAll() {
			select {
			case f.out <- t:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (f *feed) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue, f.ended = nil, true
	close(f.out)
}
