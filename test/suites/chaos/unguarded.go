// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zonelect/zonelect/test/kit/testbed"
)

// unguarded are the flags of a zonelect without its guard: nothing refuses the
// writes of a term that is over, and its work does not check its context for 30
// writes at a time.
var unguarded = []string{"--guard=false", "--register-deaf", "30"}

// errUnseen says that the judge missed an overlap that was there.
var errUnseen = errors.New("the judge did not see a zonelect without its guard")

// planUnguarded is the run that shows it: a leader is stopped past the end of
// its lease, and goes on.
func planUnguarded(seed uint64) (plan, error) {
	all, _, err := choose([]string{"leader-stopped"}, testbed.Links)
	if err != nil {
		return plan{}, err
	}
	p := newPlan(seed, 0, all)
	p.Mix, p.Peer, p.Unguarded = nil, "", true
	return p.timed(), nil
}

// showUnguarded does that run. It is not a line of the ledger, because it is meant
// to fail.
func (e *engine) showUnguarded(ctx context.Context) error {
	e.ledger = ledger{}
	p, err := planUnguarded(cmp.Or(e.seed, uint64(time.Now().Unix())))
	if err != nil {
		return err
	}
	done, err := e.all(ctx, slices.Values([]plan{p}))
	if len(done) == 0 {
		return err
	}
	if problem := seesUnguarded(done[0]); problem != nil {
		return errors.Join(problem, err)
	}
	seen := done[0].Groups[onLease]
	fmt.Printf("The judge saw it, and nothing else: %d overlaps: %s\n", seen.Overlaps, strings.Join(seen.Notes[:min(3, len(seen.Notes))], "; "))
	return nil // the run is meant to fail
}

// seesUnguarded returns an error unless the register shows the overlap of the
// group whose candidate has no guard, and the other group has none.
func seesUnguarded(r result) error {
	seen, other := r.Groups[onLease], r.Groups[onShield]
	written := slices.ContainsFunc(seen.Notes, func(note string) bool { return strings.HasPrefix(note, "revision ") })
	switch {
	case r.Verdict != failed || seen.Overlaps == 0 || !written:
		return fmt.Errorf("%w: the run %s with %d overlaps: %v", errUnseen, r.Verdict, seen.Overlaps, seen.Notes)
	case other.Overlaps > 0:
		return fmt.Errorf("%w alone: %s overlapped, too: %v", errUnseen, onShield, other.Notes)
	}
	return nil
}
