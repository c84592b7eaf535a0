// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import "time"

// SetSuspended makes e believe that its machine has been suspended for as long
// as f says. Call it before Run.
func (e *Elector) SetSuspended(f func() time.Duration) {
	e.clock.asleep = func() sleep {
		slept := f()
		return sleep{slept, slept}
	}
}

// SetClocks makes e read these clocks, of which only boot goes on while the
// machine is suspended. Call it before Run.
func (e *Elector) SetClocks(monotonic, boot func() time.Duration) {
	e.clock.asleep = func() sleep { return measure(monotonic, boot) }
}
