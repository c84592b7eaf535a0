// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"math"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// pauses are growing delays. Each is multiplied by a factor from 0.5 to 1.5 that depends on
// the candidate and on how many pauses came before. The same candidate always gets the same
// pauses.
type pauses struct {
	growing *backoff.ExponentialBackOff
	share   float64
}

// newPauses returns pauses that grow from a tenth of a RenewInterval to most, without end.
func (r *run) newPauses(most time.Duration) *pauses {
	return &pauses{retries(r.config.Timing.RenewInterval/10, most), r.share}
}

func (p *pauses) next() time.Duration {
	pause := time.Duration(float64(p.growing.NextBackOff()) * (0.5 + p.share))
	_, p.share = math.Modf(p.share + 1/math.Phi) // the pauses of one candidate spread as evenly as those of a crowd
	return pause
}

func (p *pauses) reset() { p.growing.Reset() }

// retries returns delays that grow from first to most, without end and without randomness.
func retries(first, most time.Duration) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(first),
		backoff.WithMaxInterval(most),
		backoff.WithMaxElapsedTime(0),
		backoff.WithRandomizationFactor(0),
	)
}

// spacing is the least time between two writes that may both have landed.
func spacing(t Timing) time.Duration { return min(t.RenewInterval, time.Second) }
