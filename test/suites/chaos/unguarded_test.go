// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"testing"

	"github.com/zonelect/zonelect/test/kit/testbed"
)

// On a real control plane.
func TestTheJudgeSeesAZonelectWithoutItsGuard(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a real control plane: run without -short")
	}
	network := testbed.Links
	if testbed.NamespacesPossible() == nil {
		network = testbed.Namespaces
	}
	e := &engine{options: options{network: network, seed: 7}}
	if err := e.showUnguarded(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWhatTheJudgeMustSeeIsInTheRegister(t *testing.T) {
	written := record{findings: findings{Overlaps: 1, Notes: []string{"revision 7: a wrote 5 of term 10 after b wrote 1 of term 20"}}}
	printed := record{findings: findings{Overlaps: 1, Notes: []string{"b began to lead while a led"}}}
	for name, c := range map[string]struct {
		r    result
		sees bool
	}{
		"the register shows it":  {result{Verdict: failed, Groups: map[string]record{onLease: written}}, true},
		"only works ran on":      {result{Verdict: failed, Groups: map[string]record{onLease: printed}}, false},
		"nothing is seen":        {result{Verdict: passed, Groups: map[string]record{onLease: {}}}, false},
		"it is seen, and passes": {result{Verdict: passed, Groups: map[string]record{onLease: written}}, false},
		"another is seen, too":   {result{Verdict: failed, Groups: map[string]record{onLease: written, onShield: written}}, false},
	} {
		if err := seesUnguarded(c.r); (err == nil) != c.sees || err != nil && !errors.Is(err, errUnseen) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestTheUnguardedSeatIsTheFirstLeadersAlone(t *testing.T) {
	for seed := range uint64(20) {
		p, err := planUnguarded(seed)
		if err != nil {
			t.Fatal(err)
		}
		if !p.Unguarded || p.Peer != "" || len(p.Mix) > 0 || p.name() != "leader-stopped" {
			t.Errorf("seed %d plans %+v", seed, p)
		}
		if newPlan(seed, 0, rounds(t)).Unguarded {
			t.Errorf("a run of seed %d has a zonelect without its guard", seed)
		}
	}
}
