// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Delay is how long something takes that begins now. A nil Delay is none.
type Delay func(now time.Time) time.Duration

// Constant is always the same delay.
func Constant(d time.Duration) Delay { return func(time.Time) time.Duration { return d } }

// Jitter is a delay at random. It begins with the same delays each time.
func Jitter(least, most time.Duration) Delay {
	var mu sync.Mutex
	source := rand.New(rand.NewPCG(1, 2))
	return func(time.Time) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return least + time.Duration(source.Int64N(int64(most-least)+1))
	}
}

// Steps is none at first and then d, in turn, each for span from start on.
func Steps(d time.Duration, start time.Time, span time.Duration) Delay {
	return func(now time.Time) time.Duration {
		if now.Sub(start)/span%2 == 0 {
			return 0
		}
		return d
	}
}

// Stalls has everything wait for the end of a stall of length d, of which one ends every span
// from start on.
func Stalls(d time.Duration, start time.Time, span time.Duration) Delay {
	return func(now time.Time) time.Duration {
		if left := span - now.Sub(start)%span; left <= d {
			return left
		}
		return 0
	}
}

// at is the delay of what begins now.
func (d Delay) at(now time.Time) time.Duration {
	if d == nil {
		return 0
	}
	return d(now)
}

// Wait waits for as long as something takes that begins now. It returns false if ctx ends before.
func (d Delay) Wait(ctx context.Context) bool {
	timer := time.NewTimer(d.at(time.Now()))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
