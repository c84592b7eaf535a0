// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"context"
	"time"
)

// Delay is how long something takes that begins now. A nil Delay is none.
type Delay func(now time.Time) time.Duration

// Constant is always the same delay.
func Constant(d time.Duration) Delay { return func(time.Time) time.Duration { return d } }

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
