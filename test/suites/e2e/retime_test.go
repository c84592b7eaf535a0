// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core

package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// TestARolloutThatShortensTheLeaseNeverHasTwoLeaders rolls three candidates from
// 30/20/5 to 15/10/2, and kills the last leader of each timing. That leader's own
// lease must run out, however long the others' leases are.
func TestARolloutThatShortensTheLeaseNeverHasTwoLeaders(t *testing.T) {
	b := trial.Bed(t, testbed.Config{Zones: threeZones, Network: testbed.Links, WithoutControllers: true, WithoutNodes: true})
	ctx := patience(t, 3*time.Minute)
	long := election.Timing{LeaseDuration: 30 * time.Second, RenewDeadline: 20 * time.Second, RenewInterval: 5 * time.Second}
	short := election.Timing{}.WithDefaults()
	const seenLate = time.Second // by the observer, on a busy machine
	begin := func(name string, i int, timing election.Timing) *trial.Seat {
		t.Helper()
		s, err := trial.Start(t.Context(), b, trial.Zonelect, threeZones[i], "retimed", fmt.Sprintf("%s-%d", name, i),
			"--lease-duration", timing.LeaseDuration.String(), "--renew-deadline", timing.RenewDeadline.String(), "--renew-interval", timing.RenewInterval.String())
		must(t, err)
		return s
	}
	var old, fresh []*trial.Seat
	killed := map[string]time.Time{}
	for i := range threeZones {
		old = append(old, begin("old", i, long))
		if i == 0 {
			_, err := old[0].Await(ctx, "leading", time.Time{})
			must(t, err)
		}
	}
	observer, err := trial.Observe(ctx, b.Cluster.RESTConfig("za"), "retimed")
	must(t, err)
	awaitRenewal(t, ctx, observer)

	// A new one starts, then an old one goes; the leader last.
	for i := range threeZones {
		fresh = append(fresh, begin("new", i, short))
		_, err := fresh[i].Await(ctx, "following", time.Time{})
		must(t, err)
		if i < 2 {
			must(t, old[i+1].Terminate())
			must(t, old[i+1].Wait(ctx))
		}
	}
	die := func(leader *trial.Seat, timing election.Timing, rest []*trial.Seat) *trial.Seat {
		t.Helper()
		renewed := nextRenewal(t, ctx, observer, observer.Last()).Seen
		killed[leader.Identity] = time.Now()
		must(t, leader.Kill())
		next, led, err := trial.AwaitAny(ctx, rest, "leading", killed[leader.Identity])
		must(t, err)
		took := led.Time.Sub(renewed)
		t.Logf("%s leads %v after the last renewal of %s", next.Identity, took, leader.Identity)
		if took < timing.LeaseDuration-seenLate || took > timing.LeaseDuration+mostGap+timing.RenewInterval {
			t.Errorf("%s leads %v after the last renewal of %s, whose lease is %v", next.Identity, took, leader.Identity, timing.LeaseDuration)
		}
		return next
	}
	leader := die(old[0], long, fresh)
	die(leader, short, others(fresh, leader))

	judgeOverlaps(t, termsOf(append(old, fresh...), killed))
}
