// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/zonelect/zonelect/test/kit/history"
	"github.com/zonelect/zonelect/test/kit/trial"
)

func TestClientGoAndZonelectOnOneLeaseNeverLeadTogether(t *testing.T) {
	g := newGround(t, harmless, "contest")
	read, terms := g.register(t, "register"), g.follow(t, g.namespace, "shared")
	var all []*trial.Seat
	begin := func(kind trial.Kind) *trial.Seat {
		args := append([]string{"--register=register"}, quickly...)
		if kind == trial.Zonelect {
			args = append(args, "--register-report")
		}
		s := g.seat(t, kind, threeZones[len(all)%3], "shared", fmt.Sprintf("%s-%d", kind, len(all)), args...)
		all = append(all, s)
		return s
	}
	seats := []*trial.Seat{begin(trial.Zonelect), begin(trial.ClientGo), begin(trial.Zonelect), begin(trial.ClientGo)}
	killed := map[string]time.Time{}
	since := time.Time{}
	for death := range 4 {
		leader, e := awaitAny(t, seats, "leading", since)
		await(t, leader, "wrote", e.Time)
		since = e.Time.Add(1)
		// client-go tells its work to stop and releases at the same time. Which
		// comes first is chance, so its leaders are only killed here.
		if death%2 == 0 && leader.Kind == trial.Zonelect {
			must(t, leader.Terminate())
			must(t, leader.Wait(patience(t, soon)))
		} else {
			killed[leader.Identity] = g.kill(t, leader)
		}
		seats = append(slices.DeleteFunc(seats, func(s *trial.Seat) bool { return s == leader }), begin(leader.Kind))
	}
	awaitAny(t, seats, "wrote", since)

	judgeOverlaps(t, termsOf(all, killed))
	judgeTerms(t, terms(), quick.LeaseDuration)
	printed := history.Printed{}
	for _, s := range all {
		printed[s.Identity] = s.Events()
	}
	overlaps, late := read().Overlaps(printed)
	t.Logf("%d terms, and %d writes were sent in time and landed late", len(terms()), late)
	theirs := func(identity string) bool {
		return slices.ContainsFunc(all, func(s *trial.Seat) bool { return s.Identity == identity && s.Kind == trial.ClientGo })
	}
	for _, o := range overlaps {
		if !theirs(o.Revision.Identity) || !theirs(o.After.Identity) {
			t.Error(o)
		}
	}
}
