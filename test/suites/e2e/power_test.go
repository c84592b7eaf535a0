// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !long

package e2e_test

import (
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

func TestWhenTheLeadersZoneLosesPowerTheNextLeadsAsTheLeaseEnds(t *testing.T) {
	s := newStage(t, testbed.Stacked, "za")
	follower := s.follow(t, "za") // the worst case: its connections die too
	lag := s.takeover(t, follower, s.lose(t, "za"))
	if lag > busy {
		t.Errorf("the follower led %v after the lease had ended, want %v at most", lag, busy)
	}
}

// TestAZonesLossIsFollowedSoonThoughEachAnswerIsLate: the follower's connections die
// with the zone. Each answer on every other connection, also to a TLS handshake, is
// 1.5 s late.
func TestAZonesLossIsFollowedSoonThoughEachAnswerIsLate(t *testing.T) {
	s := newStage(t, testbed.Stacked, "za")
	led := make(chan election.Term, 1)
	follower := s.followSlowly(t, "za", 1500*time.Millisecond, led)
	s.lose(t, "za")
	last := s.observer.Last()
	term := <-led
	lag := term.Began.Sub(last.Seen.Add(lease))
	t.Logf("the follower led %v after the lease had ended", lag)
	if term.Began.Before(last.Sent.Add(lease)) || lag > 8*time.Second {
		t.Errorf("the follower led %v after the lease had ended, want 0 to 8s", lag)
	}
	if follower.Status().State != status.StateLeader {
		t.Errorf("it is a %s", follower.Status().State)
	}
}

// Apiservers that list all etcd members ask a dead one too, each with timeouts
// of its own, so the delay is up to them.
func TestAPIServersThatListAllMembersDelayTheTakeoverButNeverHastenIt(t *testing.T) {
	s := newStage(t, testbed.AllMembers, "za")
	follower := s.follow(t, "za")
	s.takeover(t, follower, s.lose(t, "za"))
}

func TestWhenAnotherZoneLosesPowerTheLeaderKeepsItsLease(t *testing.T) {
	s := newStage(t, testbed.Stacked, "zb") // the leader's connections run to the zone that dies
	cut := s.lose(t, "zb")
	for last := s.observer.Last(); time.Since(cut) < 2*lease; last = nextRenewal(t, s.ctx, s.observer, last) {
		if last.Holder != s.leader.Identity {
			t.Fatalf("%s holds the lock", last.Holder)
		}
	}
	for _, e := range s.leader.Events() {
		if e.Event == "stopping" {
			t.Errorf("the leader stopped: %s", e.Cause)
		}
	}
}
