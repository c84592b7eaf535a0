// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"testing"
)

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
