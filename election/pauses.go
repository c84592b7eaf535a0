// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"math"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// pauses are delays that grow, and differ from half to one and a half of that by
// the candidate and by how many there were. The same candidate has the same
// each time.
type pauses struct {
	growing *backoff.ExponentialBackOff
	share   float64
}

// newPauses returns pauses that grow from first to most, without end.
func newPauses(first, most time.Duration, share float64) *pauses {
	growing := retries(first, most)
	growing.RandomizationFactor = 0
	growing.Reset()
	return &pauses{growing, share}
}

func (p *pauses) next() time.Duration {
	pause := time.Duration(float64(p.growing.NextBackOff()) * (0.5 + p.share))
	_, p.share = math.Modf(p.share + 1/math.Phi) // the pauses of one candidate are as even as those of a crowd
	return pause
}

func (p *pauses) reset() { p.growing.Reset() }

// retries returns delays that grow from first to most, without end.
func retries(first, most time.Duration) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(first),
		backoff.WithMaxInterval(most),
		backoff.WithMaxElapsedTime(0),
	)
}

// renewRetries returns the delays between renewals whose answers were lost. They are no closer than a second where that can matter to client-go
// (see Timing.Exclusive), and no further apart than renewals are.
func renewRetries(t Timing) *backoff.ExponentialBackOff {
	b := retries(spacing(t), t.RenewInterval)
	b.RandomizationFactor = 0
	b.Reset()
	return b
}

// spacing is the least time between two writes that may both have landed.
func spacing(t Timing) time.Duration { return min(t.RenewInterval, time.Second) }
