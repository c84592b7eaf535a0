// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"testing"
	"time"

	"github.com/zonelect/zonelect/locks/lockstest"
)

// endless is a record whose holder may lead forever, or for long.
func endless(s *stage, lasts time.Duration) {
	s.write(held(lasts))
}

// TestACandidateThatIsKeptWaitingReadsNowAndThen: else it never learns what a person has done,
// because its watch is silent.
func TestACandidateThatIsKeptWaitingReadsNowAndThen(t *testing.T) {
	for name, lasts := range map[string]time.Duration{"forever": 0, "for a year": 365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(s *stage) {
				endless(s, lasts)
				b := s.start("b")
				b.link.Set(lockstest.Fault{Mute: true})
				time.Sleep(time.Minute)
				before := b.link.Calls("read")
				time.Sleep(time.Hour)
				if reads := b.link.Calls("read") - before; reads < 30 || reads > 60 {
					t.Errorf("%d reads in an hour", reads)
				}
				endless(s, lease)
				if _, took := b.Leads(); took > 2*time.Minute+lease {
					t.Errorf("b leads %v after the record was mended", took)
				}
			})
		})
	}
}

// TestASilentWatchBeginsAgainWhileACandidateIsKeptWaiting, so that it hears the next renewal.
func TestASilentWatchBeginsAgainWhileACandidateIsKeptWaiting(t *testing.T) {
	scenario(t, func(s *stage) {
		endless(s, 0)
		b := s.start("b")
		time.Sleep(10 * time.Second)
		b.link.Set(lockstest.Fault{Mute: true})
		time.Sleep(time.Second)
		b.link.Set(lockstest.Fault{})
		time.Sleep(2 * time.Minute)
		endless(s, lease)
		if _, took := b.Leads(); took != lease {
			t.Errorf("b leads %v after the record was mended", took)
		}
	})
}
