// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package leasewatch

import "time"

// A view remembers its last changes, for a lock whose watch begins again where it ended.
const (
	historyAge  = 30 * time.Second
	historySize = 2048
)

// history is the last changes of all Leases.
type history struct {
	after   uint64 // all changes after this version are kept
	changes []Change
	times   []time.Time
}

// add adds a change, and drops those that are too old or too many.
func (h *history) add(c Change, now time.Time) {
	h.changes, h.times = append(h.changes, c), append(h.times, now)
	drop := 0
	for len(h.changes)-drop > historySize || now.Sub(h.times[drop]) > historyAge {
		drop++
	}
	if drop > 0 {
		h.after = h.changes[drop-1].State.Number
		clear(h.changes[:drop]) // the slices share memory with what is left
		h.changes, h.times = h.changes[drop:], h.times[drop:]
	}
}

// since returns the changes of a Lease after a version, and whether all of them are known.
func (h *history) since(name string, version uint64) ([]Change, bool) {
	if version < h.after {
		return nil, false
	}
	var all []Change
	for _, c := range h.changes {
		if c.Name == name && c.State.Number > version {
			all = append(all, c)
		}
	}
	return all, true
}
