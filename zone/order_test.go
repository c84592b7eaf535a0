// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package zone_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/zone"
)

// The default timing, in words.
const (
	lease = 15 * time.Second
	step  = 2 * time.Second
	slot  = 200 * time.Millisecond
)

// peers are candidates from "identity@zone", with "!" at the end of the unhealthy.
func peers(all ...string) []locks.Peer {
	var peers []locks.Peer
	for _, text := range all {
		well, unwell := strings.CutSuffix(text, "!")
		identity, zone, _ := strings.Cut(well, "@")
		p := locks.Peer{Candidate: locks.Candidate{Identity: identity, Zone: zone}}
		if unwell {
			p.Unhealthy = "the disk is full"
		}
		peers = append(peers, p)
	}
	return peers
}

// queue is the order in which candidates go, each by its own reckoning.
func queue(o zone.Order, t election.Takeover) string {
	all := slices.CompactFunc(slices.Clone(t.Peers), func(a, b locks.Peer) bool { return a.Identity == b.Identity })
	all = slices.DeleteFunc(all, func(p locks.Peer) bool { return p.Identity == "" })
	wait := func(p locks.Peer) time.Duration {
		t.Candidate = p.Candidate
		return o.TakeoverDelay(t)
	}
	slices.SortFunc(all, func(a, b locks.Peer) int { return int(wait(a) - wait(b)) })
	var texts []string
	for _, p := range all {
		texts = append(texts, fmt.Sprint(p.Identity, " ", wait(p)))
	}
	return strings.Join(texts, ", ")
}

// TestTheRestartedLeaderGoesFirstAmongItsEquals: they do not know that the former process is dead. If
// another zone should have the leader, it waits.
func TestTheRestartedLeaderGoesFirstAmongItsEquals(t *testing.T) {
	died := election.Takeover{Cause: status.CauseDied, Previous: "x", PreviousZone: "zb", Peers: peers("a@za", "b@zb", "c@zc")}
	died.Candidate = died.Peers[1].Candidate
	waits := func(o zone.Order, want time.Duration) {
		t.Helper()
		if got := o.TakeoverDelay(died); got != want {
			t.Errorf("it waits %v, want %v", got, want)
		}
	}
	waits(zone.Order{}, 0)
	waits(zone.Order{Preferred: []string{"zc"}}, 2*time.Second)
	died.Evacuated = []string{"zb"}
	waits(zone.Order{}, 15*time.Second)
	died.Cause, died.Evacuated = status.CauseReleased, nil
	waits(zone.Order{}, 200*time.Millisecond)
}

func TestWhoIsWantedMoreGoesFirst(t *testing.T) {
	const expired, deleted, released = status.CauseExpired, status.CauseDeleted, status.CauseReleased
	for name, tc := range map[string]struct {
		preferred string
		cause     status.Cause
		previous  string // as identity@zone
		evacuated string
		peers     string
		want      string
	}{
		"equals go by their hash, a slot apart":             {"", "", "", "", "d@za b@zb a@ c@", "a 0s, b 200ms, c 400ms, d 600ms"},
		"the silent holder's zone is last":                  {"", expired, "x@zb", "", "a@za b@zb x@zb", "a 0s, b 2s, x 4s"},
		"also after a deletion":                             {"", deleted, "@zb", "", "a@za b@zb", "a 0s, b 2s"},
		"who gave the lock up is last, but not its zone":    {"", released, "x@zb", "", "a@za b@zb x@zb", "a 0s, b 200ms, x 2s"},
		"unknown zones are not one zone":                    {"", expired, "", "", "a@ b@zb", "a 0s, b 200ms"},
		"preferred zones in their order, a step apart":      {"za zb", "", "", "", "a@za b@zb c@zc d@ e@za", "a 0s, e 200ms, b 2s, c 4s, d 4.2s"},
		"a preferred zone without candidates costs nothing": {"zx za", "", "", "", "a@za b@zb", "a 0s, b 2s"},
		"a preferred zone whose leader fell silent is last": {"za", expired, "@za", "", "a@za b@zb", "b 0s, a 2s"},
		"who is not well comes after all who are":           {"za", expired, "@zb", "", "a@za! b@zb c@zc!", "b 0s, a 2s, c 4s"},
		"an evacuated zone waits for the others' lease":     {"", "", "", "za", "a@za b@zb c@za", "b 0s, a 14.8s, c 15s"},
		"an unknown zone may be the evacuated one":          {"", "", "", "za", "a@za b@zb c@", "b 0s, c 2s, a 15s"},
		"but not where nobody else is there":                {"zb", "", "", "za zb", "a@za b@zb", "b 0s, a 2s"},
		"nor where nobody else is well":                     {"", "", "", "za", "a@za b@zb!", "a 0s, b 2s"},
		"peers that make no sense are nobody":               {"", "", "", "", "@za b@zb b@za", "b 0s"},
	} {
		previous, zoneOfIt, _ := strings.Cut(tc.previous, "@")
		takeover := election.Takeover{
			Cause: tc.cause, Previous: previous, PreviousZone: zoneOfIt,
			Evacuated: strings.Fields(tc.evacuated), Peers: peers(strings.Fields(tc.peers)...),
		}
		if got := queue(zone.Order{Preferred: strings.Fields(tc.preferred)}, takeover); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

func TestTheLocksOfAProgramAreSpreadOverItsReplicas(t *testing.T) {
	const many = 300
	replicas := peers("op-1@za", "op-2@zb", "op-3@zc")
	first := map[string]int{}
	for i := range many {
		takeover := election.Takeover{Lock: locks.Description{Name: fmt.Sprint("lock-", i)}, Peers: replicas}
		for _, p := range replicas {
			takeover.Candidate = p.Candidate
			if (zone.Order{}).TakeoverDelay(takeover) == 0 {
				first[p.Identity]++
			}
		}
	}
	for _, p := range replicas {
		if n := first[p.Identity]; n < many/4 || n > many/2 {
			t.Errorf("%s goes first for %d of %d locks", p.Identity, n, many)
		}
	}
}

func TestWhoKnowsNoPeersTakesAllZonesToHaveSome(t *testing.T) {
	o := zone.Order{Preferred: []string{"za", "zb"}}
	silent := election.Takeover{Cause: status.CauseExpired, PreviousZone: "za", Evacuated: []string{"ze"}}
	spread := func(o election.Takeover) time.Duration { return o.Spread(election.Timing{}) }
	for zone, want := range map[string]time.Duration{"zb": step, "zc": 2 * step, "": 2 * step, "za": 3 * step, "ze": lease - 2*step} {
		silent.Candidate = locks.Candidate{Identity: "me", Zone: zone}
		if got := o.TakeoverDelay(silent); got != want+spread(silent) {
			t.Errorf("in zone %q: %v, want %v and its spread", zone, got, want)
		}
	}
	unwished := election.Takeover{Candidate: locks.Candidate{Identity: "me", Zone: "za"}}
	if got := (zone.Order{}).TakeoverDelay(unwished); got != spread(unwished) {
		t.Errorf("without any wish: %v", got)
	}
}

func TestTheOrdersTimingIsThatOfTheElection(t *testing.T) {
	o := zone.Order{Timing: election.Timing{LeaseDuration: 3 * time.Second, RenewInterval: 500 * time.Millisecond}}
	takeover := election.Takeover{Cause: status.CauseExpired, PreviousZone: "zb", Peers: peers("a@za", "b@zb", "c@za", "e@ze")}
	takeover.Evacuated = []string{"ze"}
	if got, want := queue(o, takeover), "a 0s, c 50ms, b 500ms, e 3s"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// guess is a random takeover among up to most peers.
func guess(dice *rand.Rand, most int) (zone.Order, election.Takeover) {
	one := func(all ...string) string { return all[dice.IntN(len(all))] }
	some := func(all ...string) []string {
		dice.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		return all[:dice.IntN(len(all))]
	}
	var texts []string
	for i := range 1 + dice.IntN(most) {
		texts = append(texts, fmt.Sprint("c", i, "@", one("za", "zb", "zc", ""), one("", "", "", "!")))
	}
	t := election.Takeover{
		Cause:        status.Cause(one("expired", "released", "absent", "deleted", "cleared", "reclaimed", "unheard of")),
		Previous:     one("", "gone", "c0"),
		PreviousZone: one("za", "zb", "zx", ""),
		Peers:        peers(texts...),
		Evacuated:    some("za", "zb", "zc", "zx"),
	}
	o := zone.Order{Preferred: some("za", "zb", "zy", "zc")}
	if dice.IntN(2) == 0 {
		o.Timing.LeaseDuration = time.Duration(1+dice.IntN(60)) * time.Second
		o.Timing.RenewInterval = time.Duration(1 + dice.Int64N(int64(20*time.Second)))
	}
	return o, t
}

// waits are all peers' own reckonings, each with the peers in another order.
func waits(dice *rand.Rand, o zone.Order, t election.Takeover) []time.Duration {
	all := make([]time.Duration, len(t.Peers))
	for i, p := range slices.Clone(t.Peers) {
		dice.Shuffle(len(t.Peers), func(i, j int) { t.Peers[i], t.Peers[j] = t.Peers[j], t.Peers[i] })
		t.Candidate = p.Candidate
		all[i] = o.TakeoverDelay(t)
	}
	return all
}

func TestWhateverIsKnownEachGoesAtATimeOfItsOwnWithinALease(t *testing.T) {
	for seed := range uint64(300) {
		dice := rand.New(rand.NewPCG(seed, 5))
		o, takeover := guess(dice, 60)
		known := slices.Clone(takeover.Peers)
		who := map[time.Duration]locks.Peer{}
		const none time.Duration = -1
		in, out := none, none // the first in an evacuated zone, the last healthy one of all others
		for i, wait := range waits(dice, o, takeover) {
			p := known[i]
			if wait < 0 || wait > o.Timing.WithDefaults().LeaseDuration {
				t.Fatalf("seed %d: %+v waits %v, more than the lease or less than nothing", seed, p, wait)
			}
			if p.Identity == takeover.Previous && len(known) > 1 {
				continue // the others leave it out
			}
			if other, taken := who[wait]; taken {
				t.Fatalf("seed %d: %+v and %+v go both after %v: %+v", seed, p, other, wait, takeover)
			}
			who[wait] = p
			switch {
			case p.Unhealthy != "":
			case !slices.Contains(takeover.Evacuated, p.Zone):
				out = max(out, wait)
			case in == none || wait < in:
				in = wait
			}
		}
		if _, taken := who[0]; !taken {
			t.Fatalf("seed %d: nobody goes at once: %v", seed, who)
		}
		if in != none && in <= out || out == none && in > 0 {
			t.Fatalf("seed %d: an evacuated one goes after %v, the others within %v: %+v", seed, in, out, takeover)
		}
	}
}
