// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/zonelect/zonelect/internal/timeline"
	"github.com/zonelect/zonelect/test/kit/spans"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// mostDrawn is how many of a group's locks a page shows: those with the most terms.
const mostDrawn = 3

// drawn is a run as a page shows it. A fault is drawn across all zones.
func drawn(r result, groups []*group, all map[string]evidence) timeline.History {
	h := timeline.History{Title: fmt.Sprintf("Chaos run %d of seed %d: %s, %s", r.Run, r.Seed, r.Faults, r.Verdict), Zones: zones[:]}
	for _, g := range groups {
		for _, lock := range mostTerms(g.parts(), all) {
			g.draw(&h, lock, all[lock].Over)
		}
	}
	e := all[groups[0].parts()[0]] // the faults are the same for all groups
	for _, b := range e.Bites {
		h.Faults = append(h.Faults, timeline.Fault{Kind: timeline.Other, From: b.Bit, To: after(b.Bit, e.Mending), Text: b.Fault})
	}
	if !e.Healed.IsZero() {
		h.Notes = append(h.Notes, timeline.Note{At: e.Healed, Text: "all is well again"})
	}
	return h
}

// mostTerms are the locks that have most terms, in the order of their names.
func mostTerms(locks []string, all map[string]evidence) []string {
	most := slices.SortedStableFunc(slices.Values(locks), func(a, b string) int { return len(all[b].Terms) - len(all[a].Terms) })
	return slices.Sorted(slices.Values(most[:min(mostDrawn, len(most))]))
}

// draw adds a lock with its candidates.
func (g *group) draw(h *timeline.History, lock string, end time.Time) {
	for _, one := range g.all() {
		lane := lock + "/" + one.Identity
		h.Lanes = append(h.Lanes, timeline.Lane{ID: lane, Name: one.Identity, Zone: one.Zone, Group: lock})
		led := trial.Terms(lane, g.byPart(one.Events())[lock], end)
		trial.CutOff(led, one.goneAt(), "killed")
		h.Terms = append(h.Terms, led...)
		if one.Traces != "" {
			h.Failovers = append(h.Failovers, takeovers(one.Traces, lock, lane, led)...)
		}
	}
}

// goneAt is when the process was killed; zero if it was not.
func (s *seat) goneAt() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// takeovers are the traced ones of the terms that are drawn. A page without them is better than
// none, so spans that cannot be read are left out.
func takeovers(traces, lock, lane string, led []timeline.Term) (drawn []timeline.Failover) {
	all, _ := spans.Failovers(traces)
	for _, f := range all {
		if f.Attribute("election.lock.name") != lock || len(f.Phases) == 0 {
			continue
		}
		if i := slices.IndexFunc(led, func(t timeline.Term) bool { return fmt.Sprint(t.Token) == f.Attribute("election.token") }); i >= 0 {
			drawn = append(drawn, timeline.Failover{
				Lane: lane, Previous: f.Attribute("election.previous.holder"), Cause: f.Attribute("election.cause"),
				Token: led[i].Token, Phases: f.Drawn(),
			})
		}
	}
	return drawn
}

// after is the second time, or the first if the second is before it.
func after(first, second time.Time) time.Time {
	if second.Before(first) {
		return first
	}
	return second
}

// draw writes the page of a run into build/chaos.
func (e *place) draw(r result, s *stage, all map[string]evidence) error {
	root, err := testbed.Root()
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err := timeline.Render(&page, drawn(r, s.groups, all)); err != nil {
		return fmt.Errorf("draw run %d: %w", r.Run, err)
	}
	file := filepath.Join(root, "build", "chaos", fmt.Sprintf("%d-%d.html", r.Seed, r.Run))
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return fmt.Errorf("draw run %d: %w", r.Run, err)
	}
	return os.WriteFile(file, page.Bytes(), 0o600)
}
