// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"time"
)

// SetSuspended makes e believe that its machine has been suspended for as long
// as f says. Call it before Run.
func (e *Elector) SetSuspended(f func() time.Duration) {
	e.clock.asleep = func() suspension {
		slept := f()
		return suspension{slept, slept}
	}
}
