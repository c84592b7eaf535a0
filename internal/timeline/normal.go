// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"slices"
	"time"
)

// normalized returns a copy in the order of time, with Begin, End and all zones filled in, so
// that one history gives one page. h is not changed.
func (h History) normalized() History {
	h.Zones = slices.Clone(h.Zones)
	for _, l := range h.Lanes {
		if !slices.Contains(h.Zones, l.Zone) {
			h.Zones = append(h.Zones, l.Zone)
		}
	}
	sortBy(&h.Terms, func(t Term) time.Time { return t.From })
	sortBy(&h.Faults, func(f Fault) time.Time { return f.From })
	sortBy(&h.Expiries, func(e Expiry) time.Time { return e.At })
	sortBy(&h.Notes, func(n Note) time.Time { return n.At })
	sortBy(&h.Failovers, func(f Failover) time.Time { return f.begin() })
	all := h.times()
	if len(all) == 0 {
		all = append(all, h.Begin)
	}
	if h.Begin.IsZero() {
		h.Begin = slices.MinFunc(all, time.Time.Compare)
	}
	if h.End.IsZero() {
		h.End = slices.MaxFunc(append(all, h.Begin), time.Time.Compare)
	}
	return h
}

// sortBy replaces a list by a sorted copy.
func sortBy[T any](list *[]T, at func(T) time.Time) {
	*list = slices.Clone(*list)
	slices.SortStableFunc(*list, func(a, b T) int { return at(a).Compare(at(b)) })
}

// times returns all times in the history that are not zero.
func (h History) times() (all []time.Time) {
	add := func(times ...time.Time) {
		for _, t := range times {
			if !t.IsZero() {
				all = append(all, t)
			}
		}
	}
	for _, t := range h.Terms {
		add(t.From, t.To)
	}
	for _, f := range h.Faults {
		add(f.From, f.To)
	}
	for _, e := range h.Expiries {
		add(e.At)
	}
	for _, n := range h.Notes {
		add(n.At)
	}
	for _, f := range h.Failovers {
		for _, p := range f.Phases {
			add(p.From, p.To)
		}
	}
	return all
}

// name is what the page calls a lane.
func (l Lane) name() string { return cmp.Or(l.Name, l.ID) }

func (f Failover) begin() time.Time {
	if len(f.Phases) == 0 {
		return time.Time{}
	}
	return f.Phases[0].From
}

// took is how long the failover lasted.
func (f Failover) took() time.Duration {
	return f.Phases[len(f.Phases)-1].To.Sub(f.begin())
}

// length is how long something lasted that ended at to, or at the history's end if to is zero.
func (h History) length(from, to time.Time) time.Duration {
	if to.IsZero() {
		to = h.End
	}
	return to.Sub(from)
}

// until is when a term ended, or the history's end for one that goes on.
func (h History) until(t Term) time.Time { return t.From.Add(h.length(t.From, t.To)) }

// laneOf finds lanes by their IDs.
func (h History) laneOf() map[string]Lane {
	all := map[string]Lane{}
	for _, l := range h.Lanes {
		all[l.ID] = l
	}
	return all
}

// empty reports whether there is nothing to draw.
func (h History) empty() bool {
	return len(h.Lanes)+len(h.Faults)+len(h.Notes) == 0
}
