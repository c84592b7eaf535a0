// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"testing"

	"github.com/zonelect/zonelect/test/kit/history"
)

// judgeOverlaps fails for those in which a candidate takes part, and returns how
// many there are of them and of others.
func judgeOverlaps(t *testing.T, h history.History) (ours, theirs int) {
	t.Helper()
	for _, o := range h.Overlaps() {
		if o.Ours() {
			ours++
			t.Error(o)
		} else {
			theirs++
			t.Logf("legacy programs among themselves: %v", o)
		}
	}
	return ours, theirs
}
