// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// When is when something happened first, by lock.
type When map[string]time.Time

// First returns when an event of these names was printed first for each lock, by any of the
// seats, since then.
func First(seats []*Seat, since time.Time, names ...string) When {
	first := When{}
	for _, s := range seats {
		for _, e := range s.Events() {
			if at, seen := first[e.Lock]; e.Time.Before(since) || !slices.Contains(names, e.Event) || seen && at.Before(e.Time) {
				continue
			}
			first[e.Lock] = e.Time
		}
	}
	return first
}

// AwaitLocks is First once there are so many locks.
func AwaitLocks(ctx context.Context, seats []*Seat, locks int, since time.Time, names ...string) (When, error) {
	for {
		first := First(seats, since, names...)
		if len(first) >= locks {
			return first, nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return first, fmt.Errorf("%v was printed for %d locks of %d: %w", names, len(first), locks, ctx.Err())
		}
	}
}

// After returns how long after that it had happened for so many percent of the locks.
func (w When) After(since time.Time, percent int) time.Duration {
	var took []time.Duration
	for _, at := range w {
		took = append(took, at.Sub(since))
	}
	if slices.Sort(took); len(took) == 0 {
		return 0
	}
	return took[max(0, (len(took)*percent+99)/100-1)]
}
