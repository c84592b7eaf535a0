// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"
)

// Working is the set of those at work now, in the order in which they began. Its
// zero value is empty. It is not safe for concurrent use.
type Working[P comparable] struct{ now []P }

// Begin notes that p's work begins, and returns all that are still at work: each
// of them overlaps with p. If p is among them, its own previous work has not
// ended.
func (w *Working[P]) Begin(p P) (beside []P) {
	beside = slices.Clone(w.now)
	if !w.Has(p) {
		w.now = append(w.now, p)
	}
	return beside
}

// End notes that p's work has ended.
func (w *Working[P]) End(p P) {
	w.now = slices.DeleteFunc(w.now, func(o P) bool { return o == p })
}

// Has reports whether p is at work.
func (w *Working[P]) Has(p P) bool { return slices.Contains(w.now, p) }

// All returns all that are at work.
func (w *Working[P]) All() []P { return slices.Clone(w.now) }
