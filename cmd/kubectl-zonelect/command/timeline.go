// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/timeline"
)

const timelineLong = `The page has the last terms of the lock, up to 20: who led when, in which zone, and for how long nobody
did. It needs no network. Point at a term or a gap for its figures, and zoom with the wheel, the buttons
or the keys + and -.

The page shows what 'kubectl zonelect history' prints, and the candidates that wait. Each term begins by
its holder's clock. Where clocks differ so much that terms would overlap, the earlier one is cut short.

ClusterRole zonelect-status ('kubectl zonelect rights status' prints it) grants the rights.`

const timelineExample = `  kubectl zonelect timeline my-operator                            # my-operator-timeline.html
  kubectl zonelect timeline my-operator --to /tmp/failover.html
  kubectl zonelect timeline my-operator --to - > page.html`

// timelineCommand is one call of timeline.
type timelineCommand struct {
	env     *environment
	to      string
	cluster cluster
}

func newTimeline(env *environment) *cobra.Command {
	t := &timelineCommand{env: env}
	c := &cobra.Command{
		Use:     "timeline LOCK",
		Short:   "Draw who led before as an HTML page",
		Long:    timelineLong,
		Example: timelineExample,
		Args:    one("LOCK"),
		RunE:    func(c *cobra.Command, args []string) error { return failed(t.run(c.Context(), args[0])) },

		Annotations: roleStatus.marks(),
	}
	c.ValidArgsFunction = completeFirst(env, new(bool), func(f inspect.Election) []string { return []string{f.Name} })
	c.Flags().StringVar(&t.to, "to", "", "The file to write, or - for the standard output. LOCK-timeline.html if empty.")
	return c
}

func (t *timelineCommand) run(ctx context.Context, name string) error {
	var err error
	if t.cluster, err = t.env.cluster(roleStatus, false); err != nil {
		return err
	}
	found, err := t.cluster.Election(ctx, t.cluster.lock(name))
	if err != nil {
		return err
	}
	if found.Lease == nil {
		return t.cluster.withoutLease(ctx, name)
	}
	list := []inspect.Election{found}
	t.cluster.zones().Find(ctx, list)
	found = list[0]
	now := t.env.now()
	history := found.History(now)
	var page bytes.Buffer
	if err := timeline.Render(&page, drawn(found, history, now)); err != nil {
		return err
	}
	tellAll(t.env.streams.ErrOut, remarks(name, history.Findings))
	return t.write(name, page.Bytes(), len(history.Terms))
}

// write writes the page, and says where.
func (t *timelineCommand) write(name string, page []byte, terms int) error {
	if t.to == "-" {
		_, err := t.env.streams.Out.Write(page)
		return err
	}
	file := t.to
	if file == "" {
		file = name + "-timeline.html"
	}
	if err := os.WriteFile(file, page, 0o600); err != nil {
		return fmt.Errorf("writing the page: %w; choose another file with --to", err)
	}
	return say(t.env.streams.Out, "%d terms of lock %s are in %s\n", terms, name, file)
}

// drawn is a lock's history as a page shows it. Terms whose time is not known are left out.
func drawn(e inspect.Election, history inspect.History, now time.Time) timeline.History {
	h := timeline.History{Title: fmt.Sprintf("Lock %s in namespace %s", e.Name, e.Namespace), End: now}
	lane := func(identity, zone string) {
		known := func(l timeline.Lane) bool { return l.ID == identity }
		if identity != "" && !slices.ContainsFunc(h.Lanes, known) { // anybody may announce an identity twice
			h.Lanes = append(h.Lanes, timeline.Lane{ID: identity, Zone: zone, Group: e.Name})
		}
	}
	for _, c := range e.Candidates {
		lane(c.Identity, c.Zone)
	}
	var known []inspect.Term
	for _, t := range history.Terms {
		if t.Since == nil || t.Holder == "" {
			continue
		}
		known = append(known, t)
		lane(t.Holder, t.Zone)
	}
	h.Terms = bars(known, e.Status(now).State == inspect.Held)
	for i := 1; i < len(known); i++ {
		if gap := known[i].NobodyLedMilliseconds; gap != nil {
			h.Failovers = append(h.Failovers, timeline.Failover{
				Lane: known[i].Holder, Previous: known[i-1].Holder, Cause: known[i].Cause, Token: known[i].Token,
				Phases: []timeline.Phase{{Name: phaseOf(known[i].Cause), From: h.Terms[i-1].To, To: h.Terms[i].From}},
			})
		}
	}
	for _, t := range h.Terms {
		h.End = slices.MaxFunc([]time.Time{h.End, t.From, t.To}, time.Time.Compare) // by a clock that is ahead
	}
	return h
}

// bars are terms by the clock of the last holder: each is over when nobody led before the next.
// The last one goes on if the lock is held. No time without a leader, of which anybody may have noted
// any, begins before the first of the terms.
func bars(terms []inspect.Term, held bool) []timeline.Term {
	all := make([]timeline.Term, len(terms))
	if len(terms) == 0 {
		return all
	}
	first := slices.MinFunc(terms, func(a, b inspect.Term) int { return a.Since.Compare(b.Since.Time) }).Since.Time
	for i := len(terms) - 1; i >= 0; i-- {
		t, bar := terms[i], &all[i]
		*bar = timeline.Term{Lane: t.Holder, From: t.Since.Time, Token: t.Token, Cause: t.Cause}
		if i < len(terms)-1 {
			next := terms[i+1]
			bar.To, bar.Ended = all[i+1].From.Add(-inMilliseconds(next.NobodyLedMilliseconds)), next.Cause
			if bar.To.Before(first) {
				bar.To = first
			}
		} else if !held {
			bar.To = bar.From.Add(inMilliseconds(t.LedForMilliseconds))
		}
		if !bar.To.IsZero() && bar.From.After(bar.To) {
			bar.From = bar.To
		}
	}
	return all
}

// phaseOf is what passed between two leaders.
func phaseOf(cause string) timeline.PhaseName {
	if cause == string(status.CauseReleased) {
		return timeline.Idle
	}
	return timeline.Silence
}

func inMilliseconds(n *int64) time.Duration {
	if n == nil {
		return 0
	}
	return time.Duration(*n) * time.Millisecond
}
