// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
)

// zoned is a candidate that does not know its zone at first. What it returns tells it.
func zoned(config *election.Config) (tell func(zone string)) {
	config.Candidate.Zone = ""
	zones := make(chan string)
	config.WatchZone = func(ctx context.Context, tell func(string)) {
		for {
			select {
			case z := <-zones:
				tell(z)
			case <-ctx.Done():
				return
			}
		}
	}
	return func(zone string) { zones <- zone; synctest.Wait() }
}

// TestAZoneThatBecomesKnownDecidesTheTakeoverDelay from then on.
func TestAZoneThatBecomesKnownDecidesTheTakeoverDelay(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		var tell func(string)
		b := s.candidate("b", func(c *election.Config) {
			tell = zoned(c)
			c.TakeoverDelay = func(o election.Takeover) time.Duration {
				if o.Candidate.Zone == "z1" {
					return 0
				}
				return time.Hour
			}
		})
		b.Start()
		time.Sleep(interval)
		a.Stop()
		time.Sleep(time.Minute)
		b.Idles()
		tell("z1")
		if term, took := b.Leads(); term.Zone != "z1" || term.Cause != status.CauseReleased || took > 0 {
			t.Errorf("it leads from zone %q after %v: %v", term.Zone, took, term.Cause)
		}
	})
}
