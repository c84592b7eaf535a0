// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/zonelect/zonelect/test/kit/trial"
)

// clockStepped needs programs that are built for it.
const clockStepped = "clock-stepped"

// clockFaults are those of wall clocks.
var clockFaults = []fault{
	{
		name: clockStepped, about: "wall clocks stepped by an hour, leader's and others' apart",
		lasts: aTakeover, asks: true, inject: stepClocks, ends: mend, promise: untouched,
	},
}

// steppable builds the candidates so that their clocks can be stepped, if any
// run steps them.
func steppable(ctx context.Context, rounds [][]fault) error {
	for _, faults := range rounds {
		if slices.ContainsFunc(faults, func(f fault) bool { return f.name == clockStepped }) {
			fmt.Println("Building candidates whose clocks can be stepped (the first time takes minutes).")
			return trial.MakeSteppable(ctx, trial.Zonelect, trial.ClientGo)
		}
	}
	return nil
}

func stepClocks(ctx context.Context, s *stage, dice *rand.Rand) (cure, error) {
	by := time.Hour
	if dice.IntN(2) == 0 {
		by = -by
	}
	var leaders []*seat
	steps := map[*seat]time.Duration{}
	for _, g := range s.groups {
		leader, err := g.leader()
		if err != nil {
			return nil, err
		}
		for _, one := range g.followers() {
			steps[one] = -by
		}
		steps[leader] = by
		leaders = append(leaders, leader)
	}
	undo := func(context.Context) error {
		var errs []error
		for one, by := range steps {
			errs = append(errs, one.StepClock(-by))
		}
		return errors.Join(errs...)
	}
	for one, by := range steps {
		if err := one.StepClock(by); err != nil {
			return undo, err
		}
	}
	// A leader writes the register and reports that.
	return undo, s.soon(ctx, func() error {
		for _, one := range leaders {
			if one.Stepped() != by {
				return fmt.Errorf("%w: the clock of %s is off by %v", errMissed, one.Identity, one.Stepped())
			}
		}
		return nil
	})
}
