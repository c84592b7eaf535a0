// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"maps"
	"testing"
)

func TestAStageReadsBackAsItWasWritten(t *testing.T) {
	for _, s := range []Stage{{}, {Phase: PhaseLegacy}, {PhaseDual, 1}, {PhaseSealed, 17}, {PhaseClean, 1 << 63}} {
		annotations := WriteStage(nil, s)
		if got := ReadStage(annotations); got != s {
			t.Errorf("wrote %+v, read %+v from %v", s, got, annotations)
		}
		if s == (Stage{}) && annotations != nil {
			t.Errorf("the zero stage wrote %v", annotations)
		}
	}
}

func TestAStageThatMakesNoSenseIsNone(t *testing.T) {
	for name, annotations := range map[string]map[string]string{
		"nothing":       nil,
		"no phase":      {AnnotationPhaseStep: "3"},
		"unknown phase": {AnnotationPhase: "halfway", AnnotationPhaseStep: "3"},
		"other case":    {AnnotationPhase: "Dual", AnnotationPhaseStep: "3"},
		"words":         {AnnotationPhase: "dual", AnnotationPhaseStep: "three"},
		"a sign":        {AnnotationPhase: "dual", AnnotationPhaseStep: "-1"},
		"zeros":         {AnnotationPhase: "dual", AnnotationPhaseStep: "007"},
		"empty step":    {AnnotationPhase: "dual", AnnotationPhaseStep: ""},
	} {
		if got := ReadStage(annotations); got != (Stage{}) {
			t.Errorf("%s: read %+v, want none", name, got)
		}
	}
}

func TestWritingAStageKeepsTheRest(t *testing.T) {
	annotations := map[string]string{"theirs": "kept", AnnotationPhase: "dual", AnnotationPhaseStep: "3"}
	WriteStage(annotations, Stage{Phase: PhaseSealed, Step: 4})
	if want := map[string]string{"theirs": "kept", AnnotationPhase: "sealed", AnnotationPhaseStep: "4"}; !maps.Equal(annotations, want) {
		t.Errorf("got %v, want %v", annotations, want)
	}
	WriteStage(annotations, Stage{})
	if want := map[string]string{"theirs": "kept"}; !maps.Equal(annotations, want) {
		t.Errorf("got %v, want %v", annotations, want)
	}
}

// TestTheLaterChangeCounts, in either direction, and whichever object it was read from.
func TestTheLaterChangeCounts(t *testing.T) {
	none, dual, sealed := Stage{}, Stage{PhaseDual, 1}, Stage{PhaseSealed, 2}
	back := Stage{PhaseDual, 3}
	for _, tc := range []struct{ a, b, want Stage }{
		{none, none, none},
		{none, dual, dual},
		{none, Stage{Phase: PhaseLegacy}, Stage{Phase: PhaseLegacy}},
		{dual, sealed, sealed},
		{sealed, back, back},
		{dual, dual, dual},
		{Stage{PhaseSealed, 3}, back, back},
		{Stage{PhaseClean, 3}, Stage{PhaseSealed, 3}, Stage{PhaseSealed, 3}},
	} {
		if got := tc.a.Later(tc.b); got != tc.want {
			t.Errorf("%+v and %+v: %+v, want %+v", tc.a, tc.b, got, tc.want)
		}
		if got := tc.b.Later(tc.a); got != tc.want {
			t.Errorf("%+v and %+v: %+v, want %+v", tc.b, tc.a, got, tc.want)
		}
	}
}
