// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import "context"

// Plan is where a migration stands, and where it may go from there.
type Plan struct {
	Report Report `json:"report"`
	// Next is the step forward, and Back the one back; nil where there is none.
	Next *Step `json:"next,omitempty"`
	Back *Step `json:"back,omitempty"`
	// Checks are those of Next; none if that is taken by hand.
	Checks Checks `json:"checks,omitempty"`
}

// Step is one step in words.
type Step struct {
	From Phase `json:"from,omitempty"`
	To   Phase `json:"to"`
	// By is how it is taken: Advance, Rollback or Clean. Empty means by hand.
	By     string `json:"by,omitempty"`
	Does   string `json:"does"`   // what it changes
	Verify string `json:"verify"` // how to see that it has worked
	Return string `json:"return"` // how to go back
}

// What takes a step.
const (
	ByAdvance  = "advance"
	ByRollback = "rollback"
	ByClean    = "clean"
)

var forward = map[Phase]Step{
	"": {
		To:     Dual,
		Does:   "By hand: roll out the operator's version that uses this library in mode auto, beside or in place of the old one. The first candidate takes the Lease and writes phase dual; it leads when the last legacy pod is gone.",
		Verify: "The Lease has the annotation zonelect.dev/phase: dual, and each candidate has a presence. Once a candidate leads, the ConfigMap is owned by Leases and armed.",
		Return: "Roll the old version out again: when the last candidate's pod is gone, the ConfigMap goes with it, and legacy pods lead.",
	},
	Legacy: {
		From: Legacy, To: Dual, By: ByAdvance,
		Does:   "Candidates campaign again. The one that gets the Lease waits until no legacy pod is left, puts the shield up in the ConfigMap's place, and leads.",
		Verify: "A candidate holds the Lease; the ConfigMap is owned by Leases and armed.",
		Return: "Roll back to legacy.",
	},
	Dual: {
		From: Dual, To: Sealed, By: ByAdvance,
		Does:   "The leader takes all owners off the shield, so that it stays whatever pods go: legacy pods wait for good, also while no candidate runs. Leadership goes on.",
		Verify: "The ConfigMap has no ownerReferences and says phase sealed.",
		Return: "Roll back to dual: the leader gives the shield back to the candidates. Do so before the old version is rolled out.",
	},
	Sealed: {
		From: Sealed, To: Clean, By: ByClean,
		Does:   "The leader removes the ConfigMap. Nothing keeps a legacy pod that starts after this from leading beside the candidates. Leadership goes on.",
		Verify: "The ConfigMap is gone; then candidates may be run in mode lease.",
		Return: "Roll back to dual, while candidates run in mode auto and no legacy pod does.",
	},
}

var back = map[Phase]Step{
	Dual: {
		From: Dual, To: Legacy, By: ByRollback,
		Does:   "The leader stops, takes the shield down and releases the Lease. If it dies before, the next candidate that gets the Lease takes the shield down. Candidates stay back until the phase is dual again. Legacy pods lead.",
		Verify: "The ConfigMap is owned by a legacy pod, or gone; nobody holds the Lease.",
		Return: "Advance to dual.",
	},
	Sealed: {
		From: Sealed, To: Dual, By: ByRollback,
		Does:   "The leader gives the shield to the presences of all candidates, so that it goes when they have gone. Leadership goes on.",
		Verify: "The ConfigMap is owned by Leases, is armed, and says phase dual. Then the old version may be rolled out.",
		Return: "Advance to sealed.",
	},
	Clean: {
		From: Clean, To: Dual, By: ByRollback,
		Does:   "The leader puts the shield up again, counts the legacy pods, and arms it. Leadership goes on.",
		Verify: "The ConfigMap is owned by Leases, is armed, and says phase dual.",
		Return: "Advance to sealed.",
	},
}

// Plan says where the migration stands, what the next step is, what it does, and
// whether it could be taken now. It takes as long as Preflight.
func (m *Migration) Plan(ctx context.Context) (Plan, error) {
	r, err := m.Inspect(ctx)
	if err != nil {
		return Plan{}, err
	}
	p := Plan{Report: r, Next: of(forward, r.Phase), Back: of(back, r.Phase)}
	if p.Next != nil && p.Next.By != "" {
		p.Checks, err = m.Preflight(ctx, p.Next.To)
	}
	return p, err
}

func of(steps map[Phase]Step, from Phase) *Step {
	if s, found := steps[from]; found {
		return &s
	}
	return nil
}

// stepBy returns the step that is taken in that way; nil if there is none.
func stepBy(from Phase, by string) *Step {
	for _, s := range []*Step{of(forward, from), of(back, from)} {
		if s != nil && s.By == by {
			return s
		}
	}
	return nil
}

// stepTo returns the step to a phase; nil if there is none, or none but by hand.
func stepTo(from, to Phase) *Step {
	for _, by := range []string{ByAdvance, ByRollback, ByClean} {
		if s := stepBy(from, by); s != nil && s.To == to {
			return s
		}
	}
	return nil
}
