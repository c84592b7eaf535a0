// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package zone_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/zone"
)

// TestACachedOrderRanksOnceForATakeover: after the ranking, no call allocates.
func TestACachedOrderRanksOnceForATakeover(t *testing.T) {
	over := election.Takeover{Peers: peers("a@za", "b@zb", "c@zc"), Evacuated: []string{"zb"}}
	cached := zone.Order{}.Cached()
	cached(over)
	for _, p := range over.Peers {
		over.Candidate = p.Candidate
		if n := testing.AllocsPerRun(10, func() { cached(over) }); n > 0 {
			t.Errorf("%s is ranked again", p.Identity)
		}
	}
}

// TestACachedOrderRanksAnewForAnotherTakeover, whichever part of it differs.
func TestACachedOrderRanksAnewForAnotherTakeover(t *testing.T) {
	order := zone.Order{Preferred: []string{"za", "zb", "zc", "zd"}}
	first := election.Takeover{
		Cause: status.CauseAbsent, Previous: "x", PreviousZone: "zd",
		Candidate: peers("d@zd")[0].Candidate, Peers: peers("a@zd", "b@zd", "c@zd", "d@zd", "f@za"),
	}
	for i := range 16 { // so that some lock has another order
		first.Lock.Name = fmt.Sprint(i)
		cached := order.Cached()
		cached(first)
		for name, change := range map[string]func(*election.Takeover){
			"Lock":         func(o *election.Takeover) { o.Lock.Name = fmt.Sprint("another ", i) },
			"Cause":        func(o *election.Takeover) { o.Cause = status.CauseReleased },
			"Previous":     func(o *election.Takeover) { o.Previous = "a" },
			"PreviousZone": func(o *election.Takeover) { o.Cause, o.PreviousZone = status.CauseExpired, "zd" },
			"Peers":        func(o *election.Takeover) { o.Peers = peers("a@zd", "b@zd", "c@zd", "e@zd", "f@za") },
			"Evacuated":    func(o *election.Takeover) { o.Evacuated = []string{"zd"} },
		} {
			other := first
			change(&other)
			for _, p := range other.Peers {
				other.Candidate = p.Candidate
				if got, want := cached(other), order.TakeoverDelay(other); got != want {
					t.Errorf("with another %s %s waits %v, want %v", name, p.Identity, got, want)
				}
			}
			cached(first)
		}
	}
	if n := reflect.TypeFor[election.Takeover]().NumField(); n != 8 { // RoundTrip matters only without known peers: then nothing is ranked
		t.Errorf("a takeover has %d fields: does the ranking depend on those that are new?", n)
	}
}
