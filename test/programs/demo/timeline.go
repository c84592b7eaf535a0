// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"time"

	"github.com/zonelect/zonelect/internal/timeline"
	"github.com/zonelect/zonelect/test/kit/spans"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// recorded is what a demo has seen until end.
func (d *demo) recorded(end time.Time) (timeline.History, error) {
	h := timeline.History{
		Title: "Demo: the leader's zone loses power", Begin: d.start, End: end, Zones: zones,
		Faults: []timeline.Fault{{Kind: timeline.Power, Zone: zones[0], From: d.cut, Text: "zone " + zones[0] + " loses power"}},
	}
	if d.programs.Embedded() {
		h.Title += " (on an embedded API server)"
	}
	for _, t := range d.teams {
		for _, s := range t.seats {
			h.Lanes = append(h.Lanes, timeline.Lane{ID: s.Identity, Zone: s.Zone, Group: t.name})
			gone := time.Time{}
			if s.Zone == zones[0] {
				gone = d.cut
			}
			led := trial.Terms(s.Identity, s.Events(), end)
			trial.CutOff(led, gone, "power loss")
			h.Terms = append(h.Terms, led...)
		}
		if !t.end.IsZero() {
			h.Expiries = append(h.Expiries, timeline.Expiry{Lane: t.seats[0].Identity, At: t.end})
		}
		takeover, err := t.failover(h.Terms, d.cut)
		if err != nil {
			return h, err
		}
		h.Failovers = append(h.Failovers, takeover...)
	}
	return h, nil
}

// failover is the takeover after the power loss, if there was one: from the winner's trace,
// or else as it looked from outside.
func (t *team) failover(all []timeline.Term, cut time.Time) ([]timeline.Failover, error) {
	for _, s := range t.seats[1:] {
		for _, term := range all {
			if term.Lane != s.Identity || term.From.Before(cut) {
				continue
			}
			f := timeline.Failover{Lane: s.Identity, Previous: t.seats[0].Identity, Cause: term.Cause, Token: term.Token}
			if t.kind != trial.Zonelect {
				f.Phases = t.outside(term.From, cut)
				return []timeline.Failover{f}, nil
			}
			span, err := spans.LastFailover(s.Traces)
			f.Phases = span.Drawn()
			return []timeline.Failover{f}, err
		}
	}
	return nil, nil
}

// outside is a takeover without a trace: the lease runs out, and then nobody leads.
func (t *team) outside(next, cut time.Time) []timeline.Phase {
	if t.end.IsZero() {
		return []timeline.Phase{{Name: timeline.Idle, From: cut, To: next}}
	}
	free := t.end
	if next.Before(free) {
		free = next
	}
	return []timeline.Phase{
		{Name: timeline.Silence, From: t.end.Add(-lease), To: free},
		{Name: timeline.Idle, From: free, To: next},
	}
}

// draw writes the page.
func draw(h timeline.History) error {
	var page bytes.Buffer
	if err := timeline.Render(&page, h); err != nil {
		return err
	}
	return save("timeline.html", page.Bytes())
}
