// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"testing"
	"time"

	"github.com/zonelect/zonelect/locks/lockstest"
)

// TestACandidateThatIsKeptWaitingReadsNowAndThen: else it never learns what a person has done,
// because its watch is silent.
func TestACandidateThatIsKeptWaitingReadsNowAndThen(t *testing.T) {
	each(t, map[string]time.Duration{"forever": 0, "for a year": 365 * 24 * time.Hour}, func(s *stage, lasts time.Duration) {
		s.write(held(lasts))
		b := s.start("b")
		b.link.Set(lockstest.Fault{Mute: true})
		time.Sleep(time.Minute)
		before := b.link.Calls("read")
		time.Sleep(time.Hour)
		if reads := b.link.Calls("read") - before; reads < 30 || reads > 60 {
			s.T.Errorf("%d reads in an hour", reads)
		}
		s.write(held(lease))
		if _, took := b.Leads(); took > 2*time.Minute+lease {
			s.T.Errorf("b leads %v after the record was mended", took)
		}
	})
}

// TestASilentWatchBeginsAgainWhileACandidateIsKeptWaiting, so that it hears the next renewal.
func TestASilentWatchBeginsAgainWhileACandidateIsKeptWaiting(t *testing.T) {
	scenario(t, func(s *stage) {
		s.write(held(0))
		b := s.start("b")
		time.Sleep(10 * time.Second)
		b.link.Set(lockstest.Fault{Mute: true})
		time.Sleep(time.Second)
		b.link.Set(lockstest.Fault{})
		time.Sleep(2 * time.Minute)
		s.write(held(lease))
		if _, took := b.Leads(); took != lease {
			t.Errorf("b leads %v after the record was mended", took)
		}
	})
}
