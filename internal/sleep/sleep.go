// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sleep waits for a time that a context may cut short, and wakes goroutines that wait.
package sleep

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// After returns a channel that is ready once d has passed. A caller that no longer needs it
// calls stop.
//
// It makes no timer when d is not positive. A select that finds a timer already
// due runs it on its own thread. Where several threads do so in one bubble of
// testing/synctest, Go 1.26 crashes under the race detector: the timers of a
// bubble share one race context (unlockAndRun in runtime/time.go).
func After(d time.Duration) (ready <-chan time.Time, stop func()) {
	if d <= 0 {
		due := make(chan time.Time)
		close(due)
		return due, func() {}
	}
	timer := time.NewTimer(d)
	return timer.C, func() { timer.Stop() }
}

// For waits for d and returns nil, or returns the cause of ctx's end if that
// comes first.
func For(ctx context.Context, d time.Duration) error {
	ready, stop := After(d)
	defer stop()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Wake wakes the goroutine that receives from a channel of capacity one, now or when it next does.
func Wake(waiting chan<- struct{}) {
	select {
	case waiting <- struct{}{}:
	default: // it has not answered the last call
	}
}

// Delays returns delays that grow from first to most, without end.
func Delays(first, most time.Duration) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(first), backoff.WithMaxInterval(most), backoff.WithMaxElapsedTime(0))
}
