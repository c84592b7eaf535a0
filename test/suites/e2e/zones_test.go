// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/test/kit/durations"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

const lease = timing.DefaultLeaseDuration

// TestWhenItsZoneIsLostThePreferredZoneLeadsNext: the leader's zone is preferred, and then zb. Two candidates are in
// each zone, and the connections of those in zb die with the leader's. ZONELECT_ZONE_LOSSES is how often.
func TestWhenItsZoneIsLostThePreferredZoneLeadsNext(t *testing.T) {
	g := ownGround(t, testbed.Config{Network: network(), WithoutControllers: true})
	losses, _ := strconv.Atoi(os.Getenv("ZONELECT_ZONE_LOSSES"))
	for i := range max(1, losses) {
		lock := fmt.Sprint("lost-", i)
		terms := g.follow(t, g.namespace, lock)
		enter := func(zone, event string) *trial.Seat {
			s := g.inPod(t, zone, lock, fmt.Sprintf("%s-%s-%d", lock, zone, time.Now().UnixMilli()), "--preferred-zones=za,zb")
			await(t, s, event, time.Time{})
			return s
		}
		all := []*trial.Seat{enter("za", "leading")}
		must(t, g.Network.SteerVIP("zb", "za"))
		for _, zone := range []string{"zb", "zc", "za", "zb", "zc"} {
			all = append(all, enter(zone, "following"))
		}
		must(t, g.Network.SteerVIP("zb"))
		until(t, "all know each other", func() bool { return len(presencesOf(t, g.client, g.namespace, lock)) == len(all) })
		time.Sleep(2 * timing.DefaultRenewInterval) // until they have heard it
		cut := time.Now()
		must(t, g.CutPower(t.Context(), "za"))
		winner, led := awaitAny(t, all, "leading", cut)
		renewed := terms()[0].renewed
		must(t, durations.Record(t.Name(), "a follower leads after the lease has ended", led.Time.Sub(renewed.Add(lease))))
		judgeTerms(t, terms(), lease)
		if winner.Zone != "zb" {
			t.Errorf("%s leads in %s, want one in zb", winner.Identity, winner.Zone)
		}
		for _, s := range all {
			g.kill(t, s)
		}
		must(t, g.Restore(t.Context(), "za"))
	}
}

func TestWhenAnotherZoneLosesPowerTheLeaderKeepsItsLease(t *testing.T) {
	g := ownGround(t, testbed.Config{Network: network(), WithoutControllers: true})
	must(t, g.Network.SteerVIP("za", "zb")) // the leader's connections run to the zone that dies
	leader := g.inPod(t, "za", "lock", "leader")
	await(t, leader, "leading", time.Time{})
	must(t, g.Network.SteerVIP("za"))
	terms := g.follow(t, g.namespace, "lock")
	must(t, g.CutPower(t.Context(), "zb"))
	time.Sleep(2 * lease)
	if all := terms(); len(all) != 1 || all[0].released || time.Since(all[0].renewed) > timing.DefaultRenewDeadline {
		t.Errorf("the terms are %+v", all)
	}
	for _, e := range leader.Events() {
		if e.Event == "stopping" {
			t.Errorf("the leader stopped: %s", e.Cause)
		}
	}
}
