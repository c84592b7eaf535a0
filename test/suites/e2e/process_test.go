// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core

package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/zonelect/zonelect/test/kit/trial"
)

func TestAPausedLeaderStopsItsWorkBeforeAllElse(t *testing.T) {
	b := trial.Bed(t, plain)
	ctx := patience(t, 2*time.Minute)
	old := start(t, b, "za", "lock", "old")
	if _, err := old.Await(ctx, "leading", time.Time{}); err != nil {
		t.Fatal(err)
	}
	next := start(t, b, "za", "lock", "next")
	if _, err := next.Await(ctx, "following", time.Time{}); err != nil {
		t.Fatal(err)
	}
	must(t, old.Pause())
	paused := time.Now()
	_, err := next.Await(ctx, "leading", paused)
	must(t, err)
	observer, err := trial.Observe(ctx, b.Cluster.RESTConfig("za"), "lock")
	must(t, err)
	awaitRenewal(t, ctx, observer)
	for time.Since(paused) < 2*lease {
		awaitRenewal(t, ctx, observer)
	}
	resumed := time.Now()
	must(t, old.Resume())
	stopping, err := old.Await(ctx, "stopping", resumed)
	must(t, err)
	t.Logf("the work's context ended %v after the process ran again", stopping.Time.Sub(resumed))
	if took := stopping.Time.Sub(resumed); took > 500*time.Millisecond {
		t.Errorf("the work's context ended %v after the process ran again, want 500ms at most", took)
	}
	for last := observer.Last(); time.Since(resumed) < lease/2; last = nextRenewal(t, ctx, observer, last) {
		if last.Holder != next.Identity {
			t.Fatalf("%q holds the lock after the old leader ran again", last.Holder)
		}
	}
	for _, e := range next.Events() {
		if e.Event == "stopping" {
			t.Errorf("the successor stopped: %s", e.Cause)
		}
	}
}

func TestClientGoAndZonelectOnOneLeaseNeverLeadTogether(t *testing.T) {
	b := trial.Bed(t, plain)
	ctx := patience(t, 6*time.Minute)
	timing := []string{"--lease-duration", "4s", "--renew-deadline", "2500ms", "--renew-interval", "1s"}
	begin := func(kind trial.Kind, n int) *trial.Seat {
		s, err := trial.Start(t.Context(), b, kind, "za", "shared", fmt.Sprintf("%s-%d", kind, n), timing...)
		must(t, err)
		return s
	}
	var all []*trial.Seat
	killed := map[string]time.Time{}
	seats := []*trial.Seat{begin(trial.Zonelect, 0), begin(trial.ClientGo, 1), begin(trial.Zonelect, 2), begin(trial.ClientGo, 3)}
	all = append(all, seats...)
	since := time.Time{}
	won := map[trial.Kind]int{}
	for round := range 12 {
		leader, e, err := trial.AwaitAny(ctx, seats, "leading", since)
		must(t, err)
		won[leader.Kind]++
		since = e.Time.Add(1)
		i := indexOf(seats, leader)
		// client-go tells its work to stop and releases at the same time. Which
		// comes first is chance, so its leaders are only killed here.
		if round%2 == 0 && leader.Kind == trial.Zonelect {
			must(t, leader.Terminate())
			must(t, leader.Wait(ctx))
		} else {
			killed[leader.Identity] = time.Now()
			must(t, leader.Kill())
		}
		seats[i] = begin(leader.Kind, len(all))
		all = append(all, seats[i])
	}
	t.Logf("terms won: %v", won)
	checkTerms(t, all, killed)
}

func indexOf(seats []*trial.Seat, s *trial.Seat) int {
	for i := range seats {
		if seats[i] == s {
			return i
		}
	}
	return -1
}

// checkTerms fails for overlapping terms, as the candidates printed them. The
// term of a killed candidate ended when it was killed.
func checkTerms(t *testing.T, all []*trial.Seat, killed map[string]time.Time) {
	t.Helper()
	h := termsOf(all, killed)
	judgeOverlaps(t, h)
	if len(h) < 12 {
		t.Errorf("only %d terms", len(h))
	}
}
