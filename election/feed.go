// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import "context"

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
