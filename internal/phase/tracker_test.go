// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// TestALeaseOfAnEarlierPhaseIsPartial, so that its holder writes the phase at once: somebody made the
// Lease again without it.
func TestALeaseOfAnEarlierPhaseIsPartial(t *testing.T) {
	p := NewTracker(record.Legacy{})
	in := func(s record.Stage) locks.Snapshot {
		l := &coordinationv1.Lease{}
		l.ResourceVersion, l.UID = "1", "u"
		l.Annotations = record.WriteStage(nil, s)
		return p.Observe(record.Snapshot(l))
	}
	dual, sealed := record.Stage{Phase: record.PhaseDual, Step: 1}, record.Stage{Phase: record.PhaseSealed, Step: 2}
	for _, one := range []struct {
		stage   record.Stage
		partial bool
	}{{record.Stage{}, false}, {dual, false}, {sealed, false}, {dual, true}, {record.Stage{}, true}, {sealed, false}} {
		if s := in(one.stage); s.Partial != one.partial {
			t.Errorf("%v after %v: partial is %v", one.stage, p.Stage(), s.Partial)
		}
	}
	if gone := p.Observe(record.Gone("2")); gone.Partial {
		t.Error("a Lease that is gone is partial")
	}
}
