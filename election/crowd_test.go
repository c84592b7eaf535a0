// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

// spreads are the spreads of candidates that know no peers, shortest first.
func spreads(lock, candidates int, trip time.Duration) []time.Duration {
	all := make([]time.Duration, candidates)
	for i := range all {
		all[i] = election.Takeover{
			Lock: locks.Description{Name: fmt.Sprint("lock-", lock)}, RoundTrip: trip,
			Candidate: locks.Candidate{Identity: fmt.Sprint("c", i)},
		}.Spread(election.Timing{})
	}
	slices.Sort(all)
	return all
}

func TestOfACrowdThatDoesNotKnowItselfFewGoBeforeTheyHearOfTheFirst(t *testing.T) {
	const locks = 300
	for _, net := range []struct{ trip, watch time.Duration }{
		{time.Millisecond, time.Millisecond}, {10 * time.Millisecond, 20 * time.Millisecond}, {200 * time.Millisecond, 200 * time.Millisecond},
	} {
		for _, candidates := range []int{3, 50, 500, 1000} {
			over, sum := 0, 0
			for lock := range locks {
				all := spreads(lock, candidates, net.trip)
				heard := all[0] + net.trip/2 + net.watch
				n, _ := slices.BinarySearch(all, heard+1)
				sum += n
				if n > 5 {
					over++
				}
			}
			if over > locks/12 || sum > 4*locks || net.trip < 100*time.Millisecond && over > locks/100 {
				t.Errorf("of %d candidates %v away, %.1f write on average, and more than five for %d of %d locks", candidates, net, float64(sum)/locks, over, locks)
			}
		}
	}
}

func TestASpreadOfARenewIntervalOrTwoIsTheMostAndNobodyWaitsAlone(t *testing.T) {
	o := election.Takeover{RoundTrip: time.Minute}
	for i := range 1000 {
		o.Candidate.Identity = fmt.Sprint("c", i)
		if got := o.Spread(election.Timing{}); got <= 0 || got > 2*interval {
			t.Fatalf("%s waits %v", o.Candidate.Identity, got)
		}
	}
	o.Peers = []locks.Peer{{Candidate: o.Candidate}}
	if got := o.Spread(election.Timing{}); got != 0 {
		t.Errorf("a candidate that is alone waits %v", got)
	}
}

func TestAReadThatWaitedForEtcdsElectionIsNoRoundTrip(t *testing.T) {
	for takes := time.Second; takes < 3*time.Second; takes += 50 * time.Millisecond {
		scenario(t, func(s *stage) {
			a := s.leader("a", inSeconds)
			var trip atomic.Int64
			b := s.candidate("b", inSeconds, func(c *election.Config) {
				c.TakeoverDelay = func(t election.Takeover) time.Duration {
					trip.Store(int64(t.RoundTrip))
					return 0
				}
			})
			b.link.Set(lockstest.Fault{Delay: time.Millisecond})
			b.Start()
			time.Sleep(10 * time.Second)
			a.link.Set(cut)
			b.link.Set(lockstest.Fault{Hold: true})
			time.Sleep(takes)
			b.link.Set(lockstest.Fault{Delay: time.Millisecond})
			b.Leads()
			if got := time.Duration(trip.Load()); got > 10*time.Millisecond {
				t.Errorf("after an election of %v a round trip counts as %v", takes, got)
			}
		})
	}
}
