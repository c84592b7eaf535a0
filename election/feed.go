// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"sync"
)

// Feed is one channel for the transitions of many electors, see [Elector.SubscribeTo]. It
// costs one goroutine, however many electors there are. Make one with [NewFeed]; the zero
// Feed does not work. Its methods are safe for concurrent use.
type Feed struct {
	out  chan Transition
	more chan struct{}

	mu    sync.Mutex // no outside code runs under it
	queue []Transition
	ended bool
}

// NewFeed returns a feed of no electors yet. It ends when ctx does.
func NewFeed(ctx context.Context) *Feed {
	f := &Feed{out: make(chan Transition), more: make(chan struct{}, 1)}
	go f.relay(ctx)
	return f
}

// Transitions returns the channel of the feed, always the same. It gets the transitions of
// each elector in order; Status.Lock and Status.Identity tell the electors apart. It is
// closed after the context of the feed ends. A slow reader delays nobody and misses nothing;
// what it has not read yet stays in memory.
func (f *Feed) Transitions() <-chan Transition { return f.out }

// SubscribeTo gives every transition from now on to feed. Another call for the same feed
// changes nothing. A feed that has ended gets nothing.
func (e *Elector) SubscribeTo(feed *Feed) { e.board.subscribe(feed) }

// Subscribe returns the channel of a feed for this elector alone: it gets every transition
// from now on, in order, and is closed after ctx ends. A slow reader delays nobody and misses
// nothing; what it has not read yet stays in memory. It costs a goroutine: use
// [Elector.SubscribeTo] for many electors.
func (e *Elector) Subscribe(ctx context.Context) <-chan Transition {
	feed := NewFeed(ctx)
	e.SubscribeTo(feed)
	return feed.Transitions()
}

// add queues a transition, and never blocks. It reports whether the feed goes on.
func (f *Feed) add(t Transition) bool {
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
func (f *Feed) over() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended
}

func (f *Feed) takeAll() []Transition {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.queue
	f.queue = nil
	return all
}

func (f *Feed) relay(ctx context.Context) {
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

func (f *Feed) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue, f.ended = nil, true
	close(f.out)
}
