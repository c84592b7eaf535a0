// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package slow

import "time"

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
