// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"slices"
	"strings"
	"time"

	"github.com/zonelect/zonelect/internal/timeline"
)

// lane is the candidate that an identity is a start of: candidate-1 of candidate-1_2.
func lane(identity string) string {
	name, _, _ := strings.Cut(identity, "_")
	return name
}

// History is what the page shows. Starts of one candidate share a lane.
func (s Seen) History(title string) timeline.History {
	h := timeline.History{Title: title, End: s.last()}
	for _, e := range s.Events {
		one := timeline.Lane{ID: lane(e.Candidate), Group: title}
		if !slices.Contains(h.Lanes, one) {
			h.Lanes = append(h.Lanes, one)
		}
	}
	slices.SortFunc(h.Lanes, func(a, b timeline.Lane) int { return strings.Compare(a.ID, b.ID) })
	all := Terms(s.Events)
	for _, t := range all {
		h.Terms = append(h.Terms, timeline.Term{Lane: lane(t.Candidate), From: t.From, To: t.To, Token: t.Token, Cause: t.Cause, Ended: t.Ended})
	}
	h.Faults, h.Expiries = s.faults()
	for i := 1; i < len(all); i++ {
		before, t := all[i-1], all[i]
		if before.To.IsZero() || t.From.Before(before.To) {
			continue
		}
		h.Failovers = append(h.Failovers, timeline.Failover{
			Lane: lane(t.Candidate), Previous: before.Candidate, Cause: t.Cause, Token: t.Token, Phases: s.phases(before.To, t.From),
		})
	}
	return h
}

// faults are what was done, and the ends of leases that nobody renewed.
func (s Seen) faults() (all []timeline.Fault, ends []timeline.Expiry) {
	for _, f := range []struct {
		Fault
		kind timeline.FaultKind
		to   time.Time
		text string
	}{
		{s.Stop, timeline.Other, s.Stop.At, "SIGTERM"},
		{s.Kill, timeline.Kill, s.Kill.At, "SIGKILL"},
		{s.Cut, timeline.Cut, s.Healed, "the connection is cut"},
	} {
		if f.At.IsZero() {
			continue
		}
		all = append(all, timeline.Fault{Kind: f.kind, Lane: lane(f.Leader), From: f.At, To: f.to, Text: f.text})
		if !f.LeaseEnds.IsZero() {
			ends = append(ends, timeline.Expiry{Lane: lane(f.Leader), At: f.LeaseEnds})
		}
	}
	return all, ends
}

// phases are what passed between two terms: the rest of a lease, and then the takeover.
func (s Seen) phases(from, to time.Time) []timeline.Phase {
	for _, f := range []Fault{s.Kill, s.Cut} {
		if f.LeaseEnds.After(from) && f.LeaseEnds.Before(to) {
			return []timeline.Phase{{Name: timeline.Silence, From: from, To: f.LeaseEnds}, {Name: timeline.Acquire, From: f.LeaseEnds, To: to}}
		}
	}
	return []timeline.Phase{{Name: timeline.Acquire, From: from, To: to}}
}
