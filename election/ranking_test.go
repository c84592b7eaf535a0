// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/memory"
	"github.com/zonelect/zonelect/zone"
)

// multitude returns n candidates in three zones.
func multitude(n int) []locks.Peer {
	var all []locks.Peer
	for i := range n {
		all = append(all, locks.Peer{Candidate: locks.Candidate{
			Identity: fmt.Sprintf("operator-7d9c5b%04d_%08x", i, i*7919), Zone: fmt.Sprintf("zone-%d", i%3),
			Node: fmt.Sprintf("node-%d", i), Pod: locks.Pod{Name: fmt.Sprintf("operator-7d9c5b%04d", i), UID: fmt.Sprintf("uid-%d", i)},
		}})
	}
	return all
}

// BenchmarkAChangeAmongSoManyPeers is what a change of one peer costs the loop of
// an elector that follows a holder.
func BenchmarkAChangeAmongSoManyPeers(b *testing.B) {
	for _, n := range []int{3, 100, 300, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			peers := multitude(n)
			ranking := election.NewRanking(election.Config{
				Lock: memory.New("lock"), Candidate: peers[n-1].Candidate, Timing: election.Timing{}.WithDefaults(),
				TakeoverDelay: zone.Order{}.Cached(),
			})
			b.ReportAllocs()
			for i := range b.N {
				peers[0].Node = fmt.Sprint(i)
				ranking.Meet(peers, peers[1].Identity)
			}
		})
	}
}

// TestAChangeOfPeersAsksForEachTakeoverDelayOnce: the loop asks, and it has renewals to send.
func TestAChangeOfPeersAsksForEachTakeoverDelayOnce(t *testing.T) {
	const n = 100
	peers, asked := multitude(n), map[string]int{}
	ranking := election.NewRanking(election.Config{
		Lock: memory.New("lock"), Candidate: peers[n-1].Candidate,
		TakeoverDelay: func(o election.Takeover) time.Duration {
			asked[o.Candidate.Identity]++
			return zone.Order{}.TakeoverDelay(o)
		},
	})
	ranking.Meet(peers, peers[1].Identity)
	for identity, times := range asked {
		if times > 1 {
			t.Fatalf("it asked %d times for the takeover delay of %s", times, identity)
		}
	}
}
