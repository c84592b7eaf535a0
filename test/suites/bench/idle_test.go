// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/sleep"
)

func TestAnIdleFollowerAndALeaderAskForLittle(t *testing.T) {
	b := bed(t)
	ctx := patience(t, 7*time.Minute)
	const span = 5 * time.Minute
	ours := newContest(t, ctx, b, attending, election.Timing{}, "idle", 2)
	theirs := newContest(t, ctx, b, clientGo, election.Timing{}, "client-go-idle", 2)
	must(t, ours.settle(ctx))
	must(t, theirs.settle(ctx))
	must(t, sleep.For(ctx, time.Second)) // for the requests after a term's beginning

	our, their := idle(t, ours), idle(t, theirs)
	t.Logf("idling for %v", span)
	must(t, sleep.For(ctx, span))
	ourLeader, ourFollower := our(span)
	theirLeader, theirFollower := their(span)

	add := func(work string, ours, theirs int, law string) {
		report.add(fmt.Sprintf("%s in %v", work, span), "", fmt.Sprint(ours), fmt.Sprint(theirs), law)
	}
	puts, watches, all := ourLeader.with("PUT"), ourLeader.with("WATCH"), ourLeader.with("")
	asked := ourFollower.with("")
	add("requests of an idle follower", asked, theirFollower.with(""), "3")
	add("PUTs of a leader", puts, theirLeader.with("PUT"), "150 (0.5/s)")
	add("other requests of a leader", all-puts, theirLeader.with("")-theirLeader.with("PUT"), "2, its watches")
	if asked > 3 {
		t.Errorf("the follower sent %d requests in %v, want 3 at most", asked, span)
	}
	if want := int(span.Seconds()*0.5) + 1; puts > want {
		t.Errorf("the leader sent %d PUTs in %v, want %d at most", puts, span, want)
	}
	if watches > 2 || all != puts+watches { // of the lock and of the presences; each lasts five minutes at least
		t.Errorf("besides %d PUTs the leader sent %d requests in %v, of which %d for watches: want two of them at most", puts, all-puts, span, watches)
	}
}

// idle starts counting the requests of a contest's leader and of its follower.
// The returned function ends the count.
func idle(t *testing.T, c *contest) func(span time.Duration) (leader, follower requests) {
	a, b := c.leader, c.seats[0]
	if a == b {
		b = c.seats[1]
	}
	before := [...]requests{a.wire.soFar(), b.wire.soFar()}
	t.Logf("%s, to begin with: leader %v, follower %v", c.lock, before[0], before[1])
	return func(span time.Duration) (leader, follower requests) {
		leader, follower = a.wire.soFar().since(before[0]), b.wire.soFar().since(before[1])
		t.Logf("%s, in %v: leader %v, follower %v", c.lock, span, leader, follower)
		select {
		case again := <-c.terms:
			t.Errorf("%s led again", again.by.identity)
		default:
		}
		return leader, follower
	}
}
