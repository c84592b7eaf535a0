// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/electiontest"
	"github.com/zonelect/zonelect/operator"
	"github.com/zonelect/zonelect/test/testbed"
	"github.com/zonelect/zonelect/test/trial"
)

// lease is the LeaseDuration of all trials.
const lease = election.LeaseDurationDefault

func patience(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, b *testbed.Testbed, zone, lock, identity string, args ...string) *trial.Seat {
	t.Helper()
	s, err := trial.Start(t.Context(), b, trial.Zonelect, zone, lock, identity, args...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTheLeaseLockHoldsTheLawsOnARealAPIServer(t *testing.T) {
	b := trial.Bed(t, testbed.Config{Zones: []string{"za"}, Network: testbed.Links, WithoutControllers: true, WithoutNodes: true})
	client, err := kubernetes.NewForConfig(b.RESTConfig("za"))
	if err != nil {
		t.Fatal(err)
	}
	names := 0
	electiontest.RunSuite(t, electiontest.Suite{
		New: func(t *testing.T) election.Lock {
			names++
			lock, err := operator.LeaseLock(b.RESTConfig("za"), election.Timing{}, "default", fmt.Sprint("lock-", names), operator.LockOptions{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(lock.CloseConnections)
			return lock
		},
		Delete: func(t *testing.T, l election.Lock) {
			if err := client.CoordinationV1().Leases("default").Delete(t.Context(), l.Describe().Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		},
	})
}

// network is namespaces where CI has them, and whatever works elsewhere.
func network() testbed.Network {
	if os.Getenv("CI") != "" {
		return testbed.Namespaces
	}
	return testbed.Auto
}

func TestWhenTheLeadersZoneLosesPowerTheNextLeadsAsTheLeaseEnds(t *testing.T) {
	b := trial.Bed(t, testbed.Config{Network: network(), WithoutControllers: true})
	ctx := patience(t, 2*time.Minute)
	leader := start(t, b, "za", "lock", "leader")
	if _, err := leader.Await(ctx, "leading", time.Time{}); err != nil {
		t.Fatal(err)
	}
	// The worst case: the follower's connections run to the zone that dies.
	must(t, b.SteerVIP("zb", "za"))
	follower := start(t, b, "zb", "lock", "follower")
	if _, err := follower.Await(ctx, "following", time.Time{}); err != nil {
		t.Fatal(err)
	}
	must(t, b.SteerVIP("zb"))
	observer, err := trial.Observe(ctx, b.RESTConfig("zc"), "lock")
	must(t, err)
	awaitRenewal(t, ctx, observer)

	cut := time.Now()
	must(t, b.CutPower(ctx, "za"))
	last := observer.Last()
	led, err := follower.Await(ctx, "leading", cut)
	must(t, err)
	end := last.Seen.Add(lease)
	t.Logf("power lost %v after the last renewal; the follower led %v after the lease had ended", cut.Sub(last.Seen), led.Time.Sub(end))
	if led.Time.Before(end.Add(-150 * time.Millisecond)) {
		t.Errorf("the follower led %v before the lease ended", end.Sub(led.Time))
	}
	if led.Time.After(end.Add(2 * time.Second)) {
		t.Errorf("the follower led %v after the lease had ended, want 2s at most", led.Time.Sub(end))
	}
	spansAgree(t, follower, last, led.Time)
}

// spansAgree holds the winner's span against the outside observer.
func spansAgree(t *testing.T, winner *trial.Seat, last trial.Renewal, led time.Time) {
	t.Helper()
	span, err := trial.LastFailover(winner.Traces)
	must(t, err)
	const most = 20 * time.Millisecond
	if d := span.StartTime.Sub(last.Seen); d.Abs() > most {
		t.Errorf("the span starts %v after the last renewal that the observer saw", d)
	}
	if d := span.EndTime.Sub(led); d.Abs() > most {
		t.Errorf("the span ends %v after the work had begun", d)
	}
	sum := time.Duration(0)
	for _, phase := range span.Phases {
		sum += phase.Duration()
	}
	if len(span.Phases) != 5 || sum != span.Duration() {
		t.Errorf("%d phases take %v, the failover %v", len(span.Phases), sum, span.Duration())
	}
}

func TestWhenAnotherZoneLosesPowerTheLeaderKeepsItsLease(t *testing.T) {
	b := trial.Bed(t, testbed.Config{Network: network(), WithoutControllers: true})
	ctx := patience(t, 2*time.Minute)
	must(t, b.SteerVIP("za", "zb")) // the leader's connections run to the zone that dies
	leader := start(t, b, "za", "lock", "leader")
	if _, err := leader.Await(ctx, "leading", time.Time{}); err != nil {
		t.Fatal(err)
	}
	must(t, b.SteerVIP("za"))
	observer, err := trial.Observe(ctx, b.RESTConfig("zc"), "lock")
	must(t, err)
	awaitRenewal(t, ctx, observer)
	cut := time.Now()
	must(t, b.CutPower(ctx, "zb"))
	for last := observer.Last(); time.Since(cut) < 2*lease; last = nextRenewal(t, ctx, observer, last) {
		if last.Holder != leader.Identity {
			t.Fatalf("%s holds the lock", last.Holder)
		}
	}
	for _, e := range leader.Events() {
		if e.Event == "stopping" {
			t.Errorf("the leader stopped: %s", e.Cause)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// awaitRenewal waits for two renewals, so that the next is not near.
func awaitRenewal(t *testing.T, ctx context.Context, o *trial.Observer) {
	t.Helper()
	nextRenewal(t, ctx, o, nextRenewal(t, ctx, o, o.Last()))
}

func nextRenewal(t *testing.T, ctx context.Context, o *trial.Observer, last trial.Renewal) trial.Renewal {
	t.Helper()
	for {
		if now := o.Last(); now.Seen.After(last.Seen) {
			return now
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("no renewal after %v", last.Seen)
		}
	}
}
