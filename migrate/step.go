// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// Options say how a step is taken. The zero value takes the next step.
type Options struct {
	// To is the phase to go to. Empty means the next in the direction.
	To Phase
	// DryRun checks everything and writes nothing.
	DryRun bool
	// Acknowledge names checks that may fail, because the caller knows better. It applies
	// only to checks that are Acknowledgeable.
	Acknowledge []string
}

// Outcome is a step that was taken or, in a dry run, could be.
type Outcome struct {
	From, To Phase
	Step     uint64 // the number that the phase now has
	Checks   []Check
}

// RefusedError says that a step was refused: nothing was written.
type RefusedError struct {
	Failed []Check // those that failed and were not acknowledged
}

func (e *RefusedError) Error() string {
	var reasons []string
	for _, c := range e.Failed {
		reasons = append(reasons, fmt.Sprintf("%s: %s (%s)", c.Name, c.Detail, c.ToDo))
	}
	return "the step is refused: " + strings.Join(reasons, "; ")
}

// Advance goes on to the next phase, up to sealed. It returns once the phase is
// written; Await waits for the candidates. If the step is not safe, Advance returns a
// *RefusedError and an Outcome with the checks.
func (m *Migration) Advance(ctx context.Context, o Options) (Outcome, error) {
	return m.move(ctx, byAdvance, o)
}

// Rollback goes back to the previous phase, in the same way as Advance: from sealed or clean
// to dual, from dual to legacy.
func (m *Migration) Rollback(ctx context.Context, o Options) (Outcome, error) {
	return m.move(ctx, byRollback, o)
}

// Clean makes the leader remove the sealed ConfigMap, or in phase dual the election
// record; otherwise it works as Advance does. The caller must acknowledge that nothing
// can bring legacy pods back (the check no-way-back).
func (m *Migration) Clean(ctx context.Context, o Options) (Outcome, error) {
	return m.move(ctx, byClean, o)
}

// attempts bounds how often a step is checked again because the Lease was written meanwhile,
// as its holder does every other second.
const attempts = 10

func (m *Migration) move(ctx context.Context, by string, o Options) (Outcome, error) {
	w := &observer{Migration: m}
	r, err := w.look(ctx)
	if err != nil {
		return Outcome{}, err
	}
	from := r.Stage
	out := Outcome{From: r.Phase, To: o.To}
	if c := order(r, by, o.To); !c.OK {
		return out, refused(&out, []Check{c}, o)
	}
	out.To = r.course().step(r.Phase, by, o.To).To
	if err := w.settle(ctx, r); err != nil {
		return out, err
	}
	err = locks.ErrConflict
	for i := 0; i < attempts && errors.Is(err, locks.ErrConflict); i++ {
		r, checks, looked := w.check(ctx, out.To)
		if looked != nil {
			return out, looked
		}
		if r.Stage != from {
			return out, fmt.Errorf("%w: the phase was %s (step %d), and somebody has made it %s (step %d)",
				locks.ErrConflict, from.Phase, from.Step, r.Phase, r.Step)
		}
		if err := refused(&out, checks, o); err != nil {
			return out, err
		}
		out.Step = from.Step + 1
		if o.DryRun {
			return out, nil
		}
		err = m.write(ctx, r, record.Stage{Phase: out.To, Step: out.Step}) // at the version that was judged
	}
	return out, err
}

// refused notes the checks, and returns an error if they fail.
func refused(out *Outcome, checks []Check, o Options) error {
	out.Checks = checks
	failed := slices.DeleteFunc(slices.Clone(checks), func(c Check) bool { return c.Passes(o.Acknowledge...) })
	if len(failed) > 0 {
		return &RefusedError{failed}
	}
	return nil
}

// write puts a stage on the Lease that was read, and changes nothing else.
func (m *Migration) write(ctx context.Context, r Report, stage record.Stage) error {
	if r.lease == nil {
		return m.lease.Name().Explain("update", errors.New("it does not exist: start a candidate"))
	}
	changed := r.lease.DeepCopy()
	changed.Annotations = record.WriteStage(maps.Clone(changed.Annotations), stage)
	_, err := m.lease.Update(ctx, changed)
	return err
}
