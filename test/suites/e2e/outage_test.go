// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core

package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// outage is a way in which every API server is away.
type outage struct {
	name       string
	begin, end func(t *testing.T, b *testbed.Testbed)
}

var outages = []outage{
	{"etcd stands still", pause(testbed.Etcd), resume(testbed.Etcd)},
	{"every apiserver stands still", pause(testbed.APIServer), resume(testbed.APIServer)},
	{"every apiserver stands still, then restarts", pause(testbed.APIServer), restartAll},
}

func pause(part testbed.Part) func(*testing.T, *testbed.Testbed) {
	return func(t *testing.T, b *testbed.Testbed) { must(t, b.Parts.Pause(part)) }
}

func resume(part testbed.Part) func(*testing.T, *testbed.Testbed) {
	return func(t *testing.T, b *testbed.Testbed) { must(t, b.Parts.Resume(part)) }
}

func restartAll(t *testing.T, b *testbed.Testbed) {
	var all sync.WaitGroup
	for _, zone := range b.Zones() {
		all.Go(func() {
			if err := b.Parts.RestartAPIServer(t.Context(), zone); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// TestAnOutageOfTheAPIDoesNotMoveLeadership takes the API away from candidates
// that are all alive. ZONELECT_OUTAGES is the number of outages, and
// ZONELECT_OUTAGES_SEED the seed of their random choices.
func TestAnOutageOfTheAPIDoesNotMoveLeadership(t *testing.T) {
	b := trial.Bed(t, testbed.Config{Zones: threeZones, Network: testbed.Links, WithoutControllers: true, WithoutNodes: true})
	n, seed := fromEnv(t, "ZONELECT_OUTAGES", 1), fromEnv(t, "ZONELECT_OUTAGES_SEED", 47)
	ctx := patience(t, time.Duration(n)*2*time.Minute)
	dice := rand.New(rand.NewPCG(uint64(seed), 8))
	var seats []*trial.Seat
	for i := range 5 {
		seats = append(seats, start(t, b, threeZones[i%3], "lock", fmt.Sprint("candidate-", i)))
	}
	leader, last, err := trial.AwaitAny(ctx, seats, "leading", time.Time{})
	must(t, err)
	observer, err := trial.Observe(ctx, b.Cluster.RESTConfig("za"), "lock")
	must(t, err)
	awaitRenewal(t, ctx, observer)
	moved := 0
	for i := range n {
		o := outages[(seed+i)%len(outages)]
		long := 12*time.Second + time.Duration(dice.Int64N(int64(48*time.Second)))
		time.Sleep(time.Duration(dice.Int64N(int64(2 * time.Second))))
		began := time.Now()
		o.begin(t, b)
		time.Sleep(long)
		over := time.Now()
		o.end(t, b)
		next, e, err := trial.AwaitAny(ctx, seats, "leading", began)
		must(t, err)
		t.Logf("%s for %v: %s leads with token %d, %v after its end", o.name, long.Round(time.Millisecond), e.Identity, e.Token, e.Time.Sub(over).Round(time.Millisecond))
		if next != leader {
			moved++
			t.Errorf("leadership moved from %s to %s", leader.Identity, next.Identity)
		}
		if e.Token <= last.Token {
			t.Errorf("token %d came after %d", e.Token, last.Token)
		}
		leader, last = next, e
		time.Sleep(10 * time.Second) // until all have noticed it
	}
	h := termsOf(seats, nil)
	ours, _ := judgeOverlaps(t, h)
	t.Logf("%d outages, %d moves of leadership, %d times two leaders, %d terms", n, moved, ours, len(h))
	if len(h) != n+1 {
		t.Errorf("%d terms, want one more than outages", len(h))
	}
}
