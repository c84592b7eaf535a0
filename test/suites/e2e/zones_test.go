// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/test/kit/durations"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// zonal is an election among pods in three zones, za preferred and then another.
type zonal struct {
	*testbed.Testbed
	ctx      context.Context
	lock     string
	second   string // the preferred zone when za is gone
	leader   *trial.Seat
	others   []*trial.Seat
	observer *trial.Observer
}

// newZonal starts two candidates in each zone. The first one in za leads.
// The connections of those in the second preferred zone all run to za, so that
// they die with it.
func newZonal(t *testing.T, b *testbed.Testbed, lock, second string) *zonal {
	t.Helper()
	z := &zonal{Testbed: b, ctx: patience(t, 3*time.Minute), lock: lock, second: second}
	z.leader = z.enter(t, "za", "first")
	led, err := z.leader.Await(z.ctx, "leading", time.Time{})
	must(t, err)
	must(t, z.Network.SteerVIP(second, "za"))
	for _, zone := range []string{"zb", "zc", "za", "zb", "zc"} {
		z.others = append(z.others, z.enter(t, zone, fmt.Sprint("other-", len(z.others))))
	}
	for _, s := range z.others {
		_, err := s.Await(z.ctx, "following", led.Time)
		must(t, err)
	}
	must(t, z.Network.SteerVIP(second))
	z.known(t, 1+len(z.others))
	z.observer, err = trial.Observe(z.ctx, z.Cluster.RESTConfig(z.third()), lock)
	must(t, err)
	awaitRenewal(t, z.ctx, z.observer)
	return z
}

// third is the zone that is not preferred.
func (z *zonal) third() string { return map[string]string{"zb": "zc", "zc": "zb"}[z.second] }

// enter starts a candidate in a new pod.
func (z *zonal) enter(t *testing.T, zone, name string) *trial.Seat {
	t.Helper()
	pod, err := z.Cluster.AddPod(z.ctx, zone, z.lock+"-"+name, "default", nil)
	must(t, err)
	return start(t, z.Testbed, zone, z.lock, pod.Name, "--preferred-zones", "za,"+z.second,
		"--pod-name", pod.Name, "--pod-uid", string(pod.UID), "--node-name", pod.Spec.NodeName)
}

// known waits until that many candidates have a presence.
func (z *zonal) known(t *testing.T, n int) {
	t.Helper()
	client, err := kubernetes.NewForConfig(z.Cluster.RESTConfig("zb"))
	must(t, err)
	for late := time.Now().Add(soon); ; time.Sleep(20 * time.Millisecond) {
		all, err := client.CoordinationV1().Leases("default").List(z.ctx, metav1.ListOptions{LabelSelector: "zonelect.dev/lock=" + z.lock})
		must(t, err)
		if len(all.Items) == n {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("%d candidates have a presence, want %d", len(all.Items), n)
		}
	}
}

// moves checks that somebody leads in time, and returns whether all of the second zone were late. Then
// another zone leads.
func (z *zonal) moves(t *testing.T, since time.Time) (late bool) {
	t.Helper()
	last := z.observer.Last()
	winner, led, err := trial.AwaitAny(z.ctx, z.others, "leading", since)
	must(t, err)
	lag := led.Time.Sub(last.Seen.Add(lease))
	must(t, durations.Record(t.Name(), "a follower leads after the lease has ended", lag))
	const step, seenLate = timing.DefaultRenewInterval, 500 * time.Millisecond
	if winner.Zone != z.second && lag < step-seenLate {
		t.Errorf("%s leads in %s, want one in %s", winner.Identity, winner.Zone, z.second)
	}
	return winner.Zone != z.second
}

// end stops the running candidates.
func (z *zonal) end() {
	for _, s := range append(z.others, z.leader) {
		_ = s.Kill()
	}
}

// ZONELECT_ZONE_LOSSES is the number of zones that are lost.
func TestWhenItsZoneIsLostThePreferredZoneLeadsNext(t *testing.T) {
	b := trial.Bed(t, testbed.Config{Network: network(), WithoutControllers: true})
	moves, late := 0, 0
	count := func(is bool) {
		if moves++; is {
			late++
		}
	}
	for i := range fromEnv(t, "ZONELECT_ZONE_LOSSES", 1) {
		t.Run(fmt.Sprint("loss ", i), func(t *testing.T) {
			z := newZonal(t, b, fmt.Sprint("lost-", i), []string{"zb", "zc"}[i%2])
			defer z.end()
			cut := time.Now()
			must(t, z.CutPower(z.ctx, "za"))
			defer func() { must(t, z.Restore(z.ctx, "za")) }()
			count(z.moves(t, cut))
		})
	}
	t.Run("and the rest of a zone whose leader fell silent is last", func(t *testing.T) {
		z := newZonal(t, b, "silent", "zb")
		defer z.end()
		killed := time.Now()
		must(t, z.leader.Kill())
		count(z.moves(t, killed))
	})
	if late > max(1, moves/10) { // on a busy machine
		t.Errorf("in %d of %d moves all candidates of the preferred zone were late", late, moves)
	}
}
