// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
)

// TestAZoneThatBecomesKnownDecidesTheTakeoverDelay from then on.
func TestAZoneThatBecomesKnownDecidesTheTakeoverDelay(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		zones := make(chan string, 1)
		b := s.start("b", func(c *election.Config) {
			c.Candidate.Zone = ""
			c.WatchZone = func(ctx context.Context, tell func(string)) {
				select {
				case z := <-zones:
					tell(z)
				case <-ctx.Done():
				}
			}
			c.TakeoverDelay = func(o election.Takeover) time.Duration {
				if o.Candidate.Zone == "z1" {
					return 0
				}
				return time.Hour
			}
		})
		time.Sleep(interval)
		a.Stop()
		time.Sleep(time.Minute)
		b.Idles()
		zones <- "z1"
		if term, took := b.Leads(); term.Zone != "z1" || term.Cause != status.CauseReleased || took > 0 {
			t.Errorf("it leads from zone %q after %v: %v", term.Zone, took, term.Cause)
		}
	})
}
