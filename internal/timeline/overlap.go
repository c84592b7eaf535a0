// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package timeline

import "time"

// overlap is a time in which two candidates of a group led, with the numbers of their terms.
type overlap struct {
	first, second int
	from, to      time.Time
}

// before returns for each term which one of its group, of those that began earlier, ended
// last; -1 for the first of a group. It expects the terms in the order of time.
func (h History) before() []int {
	lanes, latest := h.laneOf(), map[string]int{}
	all := make([]int, len(h.Terms))
	for i, t := range h.Terms {
		group := lanes[t.Lane].Group
		last, ok := latest[group]
		if all[i] = -1; ok {
			all[i] = last
		}
		if !ok || h.until(t).After(h.until(h.Terms[last])) {
			latest[group] = i
		}
	}
	return all
}

// overlaps returns where a term began before the earlier ones of its group had ended.
func (h History) overlaps() (all []overlap) {
	for i, b := range h.before() {
		if b < 0 {
			continue
		}
		if from, to := h.shared(h.Terms[b], h.Terms[i]); to.After(from) {
			all = append(all, overlap{b, i, from, to})
		}
	}
	return all
}

// shared is the time in which both terms lasted. to is not after from if there was none.
func (h History) shared(first, second Term) (from, to time.Time) {
	from, to = second.From, h.until(first)
	if end := h.until(second); end.Before(to) {
		to = end
	}
	return from, to
}
