// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrHistory is the error for a history that contradicts itself.
var ErrHistory = errors.New("timeline: this history cannot be drawn")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrHistory, fmt.Sprintf(format, args...))
}

// clock is how times are written in errors.
const clock = "15:04:05.000000"

// checker knows the lanes and the zones of a history, and when it begins and ends.
type checker struct {
	begin, end time.Time
	lanes      map[string]bool
	zones      map[string]bool
}

// check says what is wrong first in a history that normalized has prepared.
func (h History) check() error {
	c := checker{begin: h.Begin, end: h.End, lanes: map[string]bool{}, zones: map[string]bool{}}
	if err := c.names(h); err != nil {
		return err
	}
	for _, check := range []func(History) error{c.terms, c.faults, c.instants, c.failovers} {
		if err := check(h); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) names(h History) error {
	for _, z := range h.Zones {
		if c.zones[z] {
			return invalid("zone %q is listed twice", z)
		}
		c.zones[z] = true
	}
	for i, l := range h.Lanes {
		switch {
		case l.ID == "":
			return invalid("lane %d has no ID", i)
		case c.lanes[l.ID]:
			return invalid("two lanes have the ID %q", l.ID)
		}
		c.lanes[l.ID] = true
	}
	return nil
}

func (c *checker) lane(what, id string) error {
	if !c.lanes[id] {
		return invalid("%s names the lane %q, which is not in the history", what, id)
	}
	return nil
}

// span checks from and to, of which to may be zero.
func (c *checker) span(what string, from, to time.Time) error {
	if err := c.at(what, from); err != nil {
		return err
	}
	if to.IsZero() {
		return nil
	}
	if to.Before(from) {
		return invalid("%s ends at %s, before it begins at %s", what, to.Format(clock), from.Format(clock))
	}
	return c.at(what, to)
}

func (c *checker) at(what string, t time.Time) error {
	switch {
	case t.IsZero():
		return invalid("%s has no time", what)
	case t.Before(c.begin):
		return invalid("%s is at %s, before the history begins at %s", what, t.Format(clock), c.begin.Format(clock))
	case t.After(c.end):
		return invalid("%s is at %s, after the history ends at %s", what, t.Format(clock), c.end.Format(clock))
	}
	return nil
}

// terms of one lane follow each other. Terms of different lanes may overlap: that two led is
// what the page must show.
func (c *checker) terms(h History) error {
	last := map[string]Term{}
	for _, t := range h.Terms {
		what := fmt.Sprintf("the term of %q from %s", t.Lane, t.From.Format(clock))
		if err := errors.Join(c.lane(what, t.Lane), c.span(what, t.From, t.To)); err != nil {
			return err
		}
		if before, ok := last[t.Lane]; ok && (before.To.IsZero() || t.From.Before(before.To)) {
			return invalid("%s begins before the one from %s has ended", what, before.From.Format(clock))
		}
		last[t.Lane] = t
	}
	return nil
}

var kinds = []FaultKind{Power, API, Kill, Cut, Freeze, Other}

func (c *checker) faults(h History) error {
	for _, f := range h.Faults {
		what := fmt.Sprintf("the fault %q from %s", f.Kind, f.From.Format(clock))
		switch {
		case !slices.Contains(kinds, f.Kind):
			return invalid("%s is of no known kind, which are %q", what, kinds)
		case f.Zone != "" && f.Lane != "":
			return invalid("%s names a zone and a lane: leave one of them empty", what)
		case f.Zone != "" && !c.zones[f.Zone]:
			return invalid("%s names the zone %q, which is not in the history", what, f.Zone)
		case f.Lane != "" && !c.lanes[f.Lane]:
			return c.lane(what, f.Lane)
		}
		if err := c.span(what, f.From, f.To); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) instants(h History) error {
	for _, e := range h.Expiries {
		what := fmt.Sprintf("the end of the lease of %q", e.Lane)
		if err := errors.Join(c.lane(what, e.Lane), c.at(what, e.At)); err != nil {
			return err
		}
	}
	for _, n := range h.Notes {
		what := fmt.Sprintf("the note %q", n.Text)
		if n.Lane != "" && !c.lanes[n.Lane] {
			return c.lane(what, n.Lane)
		}
		if err := c.at(what, n.At); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) failovers(h History) error {
	for _, f := range h.Failovers {
		what := fmt.Sprintf("the failover to %q", f.Lane)
		if err := c.lane(what, f.Lane); err != nil {
			return err
		}
		if len(f.Phases) == 0 {
			return invalid("%s has no phases", what)
		}
		if err := c.phases(what, f.Phases); err != nil {
			return err
		}
	}
	return nil
}

// phases is the order in which the tables show them.
var phases = []PhaseName{Silence, Idle, TakeoverDelay, Acquire, Adopt, WorkStart}

func (c *checker) phases(failover string, all []Phase) error {
	for i, p := range all {
		what := fmt.Sprintf("the phase %q of %s", p.Name, failover)
		if !slices.Contains(phases, p.Name) {
			return invalid("%s is not known; those that are: %q", what, phases)
		}
		if p.To.IsZero() {
			return invalid("%s has no end", what)
		}
		if err := c.span(what, p.From, p.To); err != nil {
			return err
		}
		if i > 0 && p.From.Before(all[i-1].To) {
			return invalid("%s begins at %s, before the phase %q ends at %s", what, p.From.Format(clock), all[i-1].Name, all[i-1].To.Format(clock))
		}
	}
	return nil
}
