// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"testing"
	"time"

	"github.com/zonelect/zonelect/test/kit/history"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// termsOf returns the spans in which candidates led, as they printed them. The
// last span of a killed candidate ends when it was killed.
func termsOf(seats []*trial.Seat, killed map[string]time.Time) (h history.History) {
	for _, s := range seats {
		end, ended := killed[s.Identity]
		if !ended {
			end = time.Now()
		}
		h = append(h, history.TermsOf(history.Span{Pod: s.Identity, End: end, Open: !ended}, s.Events())...)
	}
	return h
}

// judgeOverlaps fails for each overlap that involves a candidate. It returns the
// number of those, and of the others.
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
