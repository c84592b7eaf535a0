// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
)

// Plan says how far a migration has come, and where it may go from there.
type Plan struct {
	Report Report `json:"report"`
	// Next is the step forward, and Back the step back; nil if there is none.
	Next *Step `json:"next,omitempty"`
	Back *Step `json:"back,omitempty"`
	// Checks are those of Next; none if Next is taken by hand.
	Checks []Check `json:"checks,omitempty"`
}

// Step is one step in words.
type Step struct {
	From Phase `json:"from,omitempty"`
	To   Phase `json:"to"`
	// By is how it is taken: advance, rollback or clean. Empty means by hand.
	By   string `json:"by,omitempty"`
	Does string `json:"does"` // what it changes
}

// The words for how a step is taken.
const (
	byAdvance  = "advance"
	byRollback = "rollback"
	byClean    = "clean"
)

// course is the steps that a lock of one kind takes.
type course []Step

// course returns the course of the lock.
func (r *Report) course() course {
	if r.Legacy.Lock.Elected {
		return byTime
	}
	return forLife
}

// rollOut is how both courses begin.
const rollOut = "By hand: roll out the operator's version that uses zonelect in mode auto, beside or in place of the old one. "

// forLife is the course off a leader-for-life lock.
var forLife = course{
	{To: Dual,
		Does: rollOut + "The first candidate takes the Lease and writes phase dual; it leads when the last legacy pod is gone."},
	{From: Legacy, To: Dual, By: byAdvance,
		Does: "Candidates campaign again. The one that gets the Lease waits until no legacy pod is left, " +
			"puts the shield up in the ConfigMap's place, and leads."},
	{From: Dual, To: Sealed, By: byAdvance,
		Does: "The leader takes all owners off the shield: legacy pods wait forever, even while no candidate runs."},
	{From: Sealed, To: Clean, By: byClean,
		Does: "The leader removes the ConfigMap. Nothing keeps a legacy pod that starts after this from leading beside the candidates. " +
			"These may then be run in mode lease."},
	{From: Dual, To: Legacy, By: byRollback,
		Does: "The leader stops, takes the shield down and releases the Lease. If it dies first, " +
			"the next candidate to get the Lease finishes this. Then legacy pods lead, and candidates wait until the phase is dual again."},
	{From: Sealed, To: Dual, By: byRollback,
		Does: "The leader gives the shield to the presences of all candidates, so that the shield goes when they have gone. " +
			"Then the old version may be rolled out."},
	{From: Clean, To: Dual, By: byRollback,
		Does: "The leader puts the shield up again, counts the legacy pods, and arms it."},
}

// byTime is the course off an election record. Such a lock expires, so that nothing of it can
// be sealed.
var byTime = course{
	{To: Dual,
		Does: rollOut + "Old and new pods take turns: a candidate leads with the record and the Lease, which says phase dual. " +
			"Give the new pods the LeaseDuration of the old ones, or a shorter one."},
	{From: Legacy, To: Dual, By: byAdvance,
		Does: "Candidates campaign again, for the record and the Lease together: they wait for the holder of the record."},
	{From: Dual, To: Clean, By: byClean,
		Does: "The leader takes its record off the legacy object, which stays. Nothing keeps a legacy elector that starts after this " +
			"from leading beside the candidates. These may then be run in mode lease."},
	{From: Dual, To: Legacy, By: byRollback,
		Does: "The leader stops and gives up the record and the Lease. " +
			"Then legacy electors lead, and candidates wait until the phase is dual again."},
	{From: Sealed, To: Dual, By: byRollback,
		Does: "Nothing: an election record cannot be sealed, and candidates treat that phase as dual. It was set by hand."},
	{From: Clean, To: Dual, By: byRollback,
		Does: "The leader takes the record again, unless a legacy elector holds it. Then the old version may be rolled out."},
}

// Plan says where the migration is, what the next step is, what it does, and whether it could
// be taken now. If legacy pods have finished, it waits up to twelve seconds for heartbeats of their kubelets.
func (m *Migration) Plan(ctx context.Context) (Plan, error) {
	r, err := m.Inspect(ctx)
	if err != nil {
		return Plan{}, err
	}
	if r.alone() {
		r.Problems = append(r.Problems, nothingToMigrate)
		return Plan{Report: r}, nil
	}
	p := Plan{Report: r, Next: r.course().step(r.Phase, "", ""), Back: r.course().step(r.Phase, byRollback, "")}
	if p.Next != nil && p.Next.By == byRollback {
		p.Next = nil
	}
	if p.Next != nil && p.Next.By != "" {
		var out Outcome
		out, err = m.move(ctx, p.Next.By, Options{To: p.Next.To, DryRun: true})
		p.Checks = out.Checks
	}
	if errors.As(err, new(*RefusedError)) {
		err = nil // the checks say so
	}
	return p, err
}

// step returns a copy of the first step from a phase, in that way, to a phase, where "" means any way or
// phase. It returns nil if there is none. What begins without a phase is by hand.
func (c course) step(from Phase, by string, to Phase) *Step {
	for _, s := range c {
		if s.From == from && (by == "" || s.By == by) && (to == "" || s.To == to) {
			return &s
		}
	}
	return nil
}
