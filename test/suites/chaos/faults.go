// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/zonelect/zonelect/election"
)

// fault is something that is done to all groups of a run at once. A new kind of
// fault is one more value in its family's file, and a new family one more in
// faults.
type fault struct {
	// name is for flags and for people, and never changes.
	name string
	// lasts is how long it goes on.
	lasts  func(t election.Timing, dice *rand.Rand) time.Duration
	inject injection
	// asks: it needs an API that answers. away: nobody gets an answer while it
	// lasts.
	asks, away bool
	// ends says when it is undone, relative to others.
	ends turn
}

// injection injects a fault, with dice for its details, and returns once the
// fault is seen to bite, or with an error that says why not: one that wraps
// errMissed makes the run void, any other the testbed as well. The cure is
// called in either case, unless it is nil.
type injection func(ctx context.Context, s *stage, dice *rand.Rand) (cure, error)

// cure undoes a fault, and returns once that is done. Dead candidates are
// restarted after it.
type cure func(ctx context.Context) error

// turn is the order in which faults that lasted together are undone: no zone
// gets ready while its network is cut or its etcd does not run.
type turn int

const (
	thaw   turn = iota // frozen programs go on
	mend               // networks are whole
	boot               // zones get their power back
	settle             // cures that need an API that answers, and faults that end by themselves
)

// faults are all of them, family by family.
func faults() []fault {
	return slices.Concat(processFaults, zoneFaults, networkFaults, serverFaults, objectFaults)
}

// errMissed is wrapped by errors that say that a fault has not bitten.
var errMissed = errors.New("the fault did not bite")

// worst is how long a takeover takes at most.
func worst(t election.Timing) time.Duration {
	takeover, _ := t.Bounds()
	return takeover
}

// aMoment is for faults that are over as soon as they are injected.
func aMoment(t election.Timing, dice *rand.Rand) time.Duration {
	return t.RenewDeadline + upTo(dice, t.RenewDeadline)
}

// aTakeover is long enough for another candidate to lead meanwhile.
func aTakeover(t election.Timing, dice *rand.Rand) time.Duration {
	return worst(t) + upTo(dice, t.LeaseDuration/2)
}

// anOutage may or may not outlast the leader's term.
func anOutage(t election.Timing, dice *rand.Rand) time.Duration {
	return t.RenewDeadline/2 + upTo(dice, t.LeaseDuration)
}
