// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

// fault is something that is done to all groups of a run at once. A new kind of
// fault is one more value in its family's file, and a new family one more line
// in families.
type fault struct {
	// name is for flags and the ledger, and never changes.
	name string
	// about is for people: a few words.
	about string
	// namespaces: it needs a network of namespaces.
	namespaces bool
	// lasts is how long it goes on.
	lasts  func(t election.Timing, dice *rand.Rand) time.Duration
	inject injection
	// asks: it needs an API that answers. away: nobody gets an answer while it
	// lasts. rolls: it goes on until all is well.
	asks, away, rolls bool
	// early: it may end early, once the term has begun that it is meant to
	// cause. Faults that must last for their own sake are not early.
	early bool
	// elects: etcd elects another leader under it, and that is why it stalls.
	elects bool
	// hands: it is a manual edit of the Lease, which client-go believes.
	hands bool
	// revives: if the leader is gone, candidates may take the edit for its renewal.
	revives bool
	// costs is what it takes besides, and stalls how long a leader that keeps its
	// term may wait for an answer under it, besides one write that hangs.
	costs  cost
	stalls time.Duration
	// ends says when it is undone, relative to others.
	ends turn
	// promise is what holds for zonelect's groups under it, given how long it
	// lasted.
	promise pledge
	// chosen is the same for a fault with random details; nil for others.
	chosen func(dice *rand.Rand) pledge
	// only names the one group that it affects; empty is all. In the other
	// groups nothing may change.
	only string
}

// pledge says what holds under a fault that lasted that long.
type pledge func(t election.Timing, lasted time.Duration) promise

// promiseIn returns what holds under the fault in a run.
func (f fault) promiseIn(p plan) pledge {
	if f.chosen != nil {
		return f.chosen(p.dice(f.name))
	}
	return f.promise
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
	admit              // every API server runs again, so that each can be asked whether it still rejects
)

// promise is what holds for a group that is hit by a fault.
type promise struct {
	// gap is the longest time without a leader's write if another term begins. It
	// does not include away, the time in which nobody gets an answer.
	gap, away time.Duration
	// lease means that a lease must run out in it; releases means that none must,
	// because a leader releases it.
	lease, releases bool
	// changes is how often the leader may change to another candidate.
	changes int
}

// limit is the longest time without a leader's write.
func (p promise) limit() time.Duration { return p.gap + p.away }

// families are all faults.
var families = [][]fault{processFaults, zoneFaults, networkFaults, serverFaults, partFaults, objectFaults, clockFaults}

func faults() (all []fault) {
	for _, f := range families {
		all = append(all, f...)
	}
	return all
}

// possible returns the faults that a network supports, and the names of the others.
func possible(n testbed.NetworkKind) (all []fault, skipped []string) {
	for _, f := range faults() {
		if f.namespaces && n != testbed.Namespaces {
			skipped = append(skipped, f.name)
			continue
		}
		all = append(all, f)
	}
	return all, skipped
}

// errMissed is wrapped by errors that say that a fault has not bitten.
var errMissed = errors.New("the fault did not bite")

// What the register adds to the time in which nobody leads: a write that hangs
// for its second, where requests may hang, and one more interval, plus the time
// that a busy machine of two cores takes to run a dozen programs beside three
// control planes.
const (
	hang  = time.Second
	busy  = 500 * time.Millisecond
	slack = hang + busy
)

// worst is how long a takeover takes at most.
func worst(t election.Timing) time.Duration {
	takeover, _ := t.Bounds()
	return takeover
}

// survived is an outage of the API in which no term surely ends: a request that hangs, and a
// second one, must have their time. It is negative if a lost request may end a term.
func survived(t election.Timing) time.Duration {
	t = t.WithDefaults()
	return t.RenewDeadline - t.RenewInterval - 2*max(t.AttemptTimeout, min(t.RenewInterval, time.Second))
}

// recovery is how long a former leader needs, once the API answers again, to lead again.
func recovery(t election.Timing) time.Duration {
	t = t.WithDefaults()
	return t.RenewInterval + t.AttemptTimeout
}

// untouched is what holds for groups that a fault does not affect.
func untouched(t election.Timing, _ time.Duration) promise {
	if survived(t) >= 0 {
		return promise{gap: slack}
	}
	// Even one lost request ends a term, and its leader leads again.
	return promise{gap: recovery(t) + t.WithDefaults().AttemptTimeout + slack, changes: 2}
}

// takeover: the leader is gone, and nobody sees it go.
func takeover(t election.Timing, _ time.Duration) promise {
	return promise{gap: worst(t) + slack, lease: true, changes: 1}
}

// outage: nobody gets an answer while it lasts.
func outage(t election.Timing, lasted time.Duration) promise {
	if lasted <= survived(t) {
		return promise{gap: slack, away: lasted}
	}
	return promise{gap: recovery(t) + slack, away: lasted}
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
