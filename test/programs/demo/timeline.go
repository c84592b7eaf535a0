// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"time"

	"github.com/zonelect/zonelect/internal/timeline"
	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// recorded is what a demo has seen, with the power lost at cut.
func recorded(all []*team, start, cut, end time.Time) (timeline.History, error) {
	h := timeline.History{
		Title: "Demo: the leader's zone loses power", Begin: start, End: end, Zones: zones,
		Faults: []timeline.Fault{{Kind: timeline.Power, Zone: zones[0], From: cut, Text: "zone " + zones[0] + " loses power"}},
	}
	for _, t := range all {
		for _, s := range t.seats {
			h.Lanes = append(h.Lanes, timeline.Lane{ID: s.Identity, Zone: s.Zone, Group: t.name})
			gone := time.Time{}
			if s.Zone == zones[0] {
				gone = cut
			}
			h.Terms = append(h.Terms, terms(s.Identity, s.Events(), gone, end)...)
		}
		if !t.end.IsZero() {
			h.Expiries = append(h.Expiries, timeline.Expiry{Lane: t.seats[0].Identity, At: t.end})
		}
		takeover, err := t.failover(h.Terms, cut)
		if err != nil {
			return h, err
		}
		h.Failovers = append(h.Failovers, takeover...)
	}
	return h, nil
}

// terms are those that a candidate printed until end. At gone its power was lost; zero means
// never.
func terms(lane string, printed []events.Event, gone, end time.Time) (all []timeline.Term) {
	why := ""
	for _, e := range printed {
		last := len(all) - 1
		switch {
		case e.Time.After(end):
		case e.Event == "leading":
			all = append(all, timeline.Term{Lane: lane, From: e.Time, Token: e.Token, Cause: e.Cause})
		case e.Event == "stopping":
			why = e.Cause
		case e.Event == "stopped" && last >= 0:
			all[last].To, all[last].Ended = e.Time, why
		}
	}
	if last := len(all) - 1; last >= 0 && all[last].To.IsZero() && !gone.IsZero() {
		all[last].To, all[last].Ended = gone, "power loss"
	}
	return all
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
			span, err := trial.LastFailover(s.Traces)
			f.Phases = phases(span)
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

// phases are those of a span.
func phases(span trial.Failover) (all []timeline.Phase) {
	for _, p := range span.Phases {
		all = append(all, timeline.Phase{Name: timeline.PhaseName(strings.TrimPrefix(p.Name, "election.")), From: p.StartTime, To: p.EndTime})
	}
	return all
}

// draw writes the page.
func draw(h timeline.History) error {
	var page bytes.Buffer
	if err := timeline.Render(&page, h); err != nil {
		return err
	}
	return save("timeline.html", page.Bytes())
}
