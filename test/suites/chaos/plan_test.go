// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"
)

func rounds(t *testing.T, names ...string) [][]fault {
	t.Helper()
	all, err := choose(names)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// text is everything that a plan decides.
func (p plan) text() string {
	return fmt.Sprint(p.Seed, p.Index, nameOf(p.Faults), p.Timing, p.Zone, p.Calm, p.Apart, p.Lasts)
}

func TestAPlanFollowsFromItsSeedAndIndexAlone(t *testing.T) {
	all := rounds(t)
	differ := 0
	for i := range 3 * len(all) {
		p := newPlan(7, i, all)
		if again := newPlan(7, i, all); again.text() != p.text() {
			t.Fatalf("run %d is %s, and then %s", i, p.text(), again.text())
		}
		if p.text() != newPlan(8, i, all).text() {
			differ++
		}
		// As in the line that says how to repeat a failure.
		again := newPlan(7, i, rounds(t, p.name()))
		if again.text() != p.text() {
			t.Fatalf("run %d is %s, and alone it is %s", i, p.text(), again.text())
		}
	}
	if differ < 2*len(all) {
		t.Errorf("another seed changes %d of %d runs", differ, 3*len(all))
	}
}

func TestEachRoundHasEachFaultAndThenEachPairOnce(t *testing.T) {
	all := rounds(t)
	n := len(faults())
	for r := range 2 {
		seen := map[string]int{}
		for i := range all {
			p := newPlan(3, r*len(all)+i, all)
			if single := len(p.Faults) == 1; single != (i < n) {
				t.Fatalf("run %d of round %d is %s: singles come first", i, r, p.name())
			}
			seen[p.name()]++
		}
		for _, one := range all {
			if seen[nameOf(one)] != 1 {
				t.Errorf("round %d has %s %d times", r, nameOf(one), seen[nameOf(one)])
			}
		}
	}
}

func TestWhatAsksTheAPIBeginsBeforeWhatTakesItAway(t *testing.T) {
	all := rounds(t)
	for i := range all {
		if p := newPlan(5, i, all); len(p.Faults) == 2 && p.Faults[0].away && p.Faults[1].asks {
			t.Errorf("%s: the second cannot be done", p.name())
		}
	}
}

func TestFaultsAreNamedOnceAndCanBeChosen(t *testing.T) {
	for i, f := range faults() {
		if place(f.name) != i || f.name == "" || strings.ContainsAny(f.name, "+, ") || f.lasts == nil || f.inject == nil {
			t.Errorf("fault %q is not complete", f.name)
		}
	}
	if got := rounds(t, "lease-deleted", "etcd-frozen+leader-killed"); len(got) != 2 || nameOf(got[1]) != "leader-killed+etcd-frozen" {
		t.Errorf("chosen were %v", got)
	}
	for _, wrong := range []string{"nonsense", "leader-killed+nonsense", "leader-killed+etcd-frozen+lease-deleted", "a+"} {
		if _, err := choose([]string{wrong}); err == nil {
			t.Errorf("%q was taken for a fault", wrong)
		}
	}
}
