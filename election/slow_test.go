// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks/lockstest"
)

// fitting is how long answers take of which two just fit into a RenewDeadline.
var _, fitting = election.Timing{}.Bounds()

// onSlow starts a candidate, makes its lock slow by delay per answer, and returns when the
// lock has been slow for a while.
func onSlow(s *stage, delay time.Duration) *seat {
	a := s.start("a")
	a.link.Set(lockstest.Fault{Delay: delay / 2})
	a.wins(2 * time.Minute)
	return a
}

// wins lets the seat win and lose terms for d.
func (c *seat) wins(d time.Duration) {
	for over := time.After(d); ; {
		select {
		case <-c.Leading:
		case <-c.Ended:
		case <-over:
			return
		}
	}
}

func TestLeadershipHoldsWhileTwoAnswersFitIntoARenewDeadline(t *testing.T) {
	for _, delay := range []time.Duration{interval / 20, interval, 3 * time.Second, 4 * time.Second, fitting} {
		t.Run(fmt.Sprint(delay), func(t *testing.T) {
			scenario(t, func(s *stage) {
				a := onSlow(s, delay)
				time.Sleep(10 * time.Minute)
				a.Stays()
			})
		})
	}
}

// TestS5NothingRenewsAReleasedRecord: renewals are under way when the work ends.
func TestS5NothingRenewsAReleasedRecord(t *testing.T) {
	scenario(t, func(s *stage) {
		a := onSlow(s, fitting)
		term := a.Term()
		a.Stop()
		s.ends(a)
		for range 300 {
			if r := s.record(); r.Holder != "" || r.Details.Released != term.Token {
				t.Fatalf("%+v", r)
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}
