// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package zone_test

import (
	"fmt"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/zone"
)

func ExampleOrder() {
	order := zone.Order{Preferred: []string{"zb"}}
	lost := election.Takeover{
		Cause: status.CauseExpired, Previous: "op-1", PreviousZone: "za",
		Peers: []locks.Peer{
			{Candidate: locks.Candidate{Identity: "op-1", Zone: "za"}},
			{Candidate: locks.Candidate{Identity: "op-2", Zone: "zb"}},
			{Candidate: locks.Candidate{Identity: "op-3", Zone: "zc"}},
			{Candidate: locks.Candidate{Identity: "op-4", Zone: "za"}},
		},
	}
	for _, peer := range lost.Peers[1:] {
		lost.Candidate = peer.Candidate // each candidate asks for itself
		fmt.Println(peer.Identity, "in", peer.Zone, "goes", order.TakeoverDelay(lost), "after the lease's end")
	}
	// Output:
	// op-2 in zb goes 0s after the lease's end
	// op-3 in zc goes 2s after the lease's end
	// op-4 in za goes 4s after the lease's end
}
