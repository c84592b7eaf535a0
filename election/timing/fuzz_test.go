// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package timing

import (
	"math"
	"math/big"
	"testing"
	"time"
)

// FuzzTiming validates any timing. One that passes obeys the law without any overflow, and
// a LeaseDuration that an error proposes is long enough.
func FuzzTiming(f *testing.F) {
	sec, half := int64(time.Second), int64(math.MaxInt64/2)
	f.Add(int64(0), int64(0), int64(0), int64(0), int64(0), 0.0, false)
	f.Add(15*sec, 10*sec, 2*sec, 2*sec, 5*sec, 0.01, false)
	f.Add(137*sec, 107*sec, 26*sec, int64(0), int64(0), 0.02, true)
	f.Add(int64(math.MaxInt64)/sec*sec, half, half, half, half, 0.5, true)
	f.Add(15*sec, 10*sec, 2*sec, 2*sec, sec, math.NaN(), false)
	f.Add(15*sec, 14*sec, 2*sec, 2*sec, sec, 0.9999999999, false)
	f.Fuzz(func(t *testing.T, lease, deadline, interval, attempt, grace int64, drift float64, exclusive bool) {
		timing := Timing{
			LeaseDuration: time.Duration(lease), RenewDeadline: time.Duration(deadline), RenewInterval: time.Duration(interval),
			AttemptTimeout: time.Duration(attempt), StopGrace: time.Duration(grace), MaxClockDrift: drift, Exclusive: exclusive,
		}.WithDefaults()
		if timing.Validate() != nil {
			if timing.inRange() == nil && timing.stopFits() != nil {
				timing.LeaseDuration = timing.leastLease()
				if err := timing.stopFits(); err != nil {
					t.Errorf("after what was proposed: %v", err)
				}
			}
			return
		}
		drifted, _ := new(big.Float).Mul(big.NewFloat(float64(timing.LeaseDuration)), big.NewFloat(timing.MaxClockDrift)).Int(nil)
		need := sumOf(timing.RenewDeadline, timing.StopGrace)
		need.Add(need, drifted)
		if timing.RenewInterval < time.Second && !exclusive {
			need.Add(need, sumOf(time.Second))
		}
		if sumOf(timing.RenewInterval, timing.AttemptTimeout).Cmp(sumOf(timing.RenewDeadline)) > 0 || need.Cmp(sumOf(timing.LeaseDuration)) > 0 {
			t.Errorf("%+v breaks the law and is valid", timing)
		}
	})
}

func sumOf(all ...time.Duration) *big.Int {
	sum := new(big.Int)
	for _, d := range all {
		sum.Add(sum, big.NewInt(int64(d)))
	}
	return sum
}
