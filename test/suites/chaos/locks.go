// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/register"
)

// lockArgs are the flags of candidates with that many locks on one heartbeat. All
// works together write as often as that of one lock does elsewhere.
func lockArgs(locks int) []string {
	return []string{"--locks", fmt.Sprint(locks), "--heartbeat", "--register-interval", (register.Interval * time.Duration(locks)).String()}
}

// parts are the names of the group's locks.
func (g *group) parts() []string { return numbered(g.name, g.locks) }

// registers are the names of the ConfigMaps that the group's leaders write, in the
// order of its locks.
func (g *group) registers() []string { return numbered(g.register(), g.locks) }

// numbered names each of several, as the candidate program does.
func numbered(name string, n int) (all []string) {
	if n == 0 {
		return []string{name}
	}
	for i := range n {
		all = append(all, fmt.Sprint(name, "-", i))
	}
	return all
}

// byPart divides what a candidate printed among the locks. Each of them has what is
// about the whole process, too.
func (g *group) byPart(printed []events.Event) map[string][]events.Event {
	if g.locks == 0 {
		return map[string][]events.Event{g.name: printed}
	}
	parts := map[string][]events.Event{}
	for _, e := range printed {
		if e.Lock != g.name {
			parts[e.Lock] = append(parts[e.Lock], e)
			continue
		}
		for _, lock := range g.parts() {
			parts[lock] = append(parts[lock], e)
		}
	}
	return parts
}

// ledEverywhere waits until each of many locks has a leader. Elsewhere whoever writes
// leads.
func (g *group) ledEverywhere(ctx context.Context) error {
	for g.led() < g.locks {
		if err := sleep.For(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("wait until all of %s are led: %d are: %w", g.name, g.led(), err)
		}
	}
	return nil
}

// led is how many locks of the group a living process leads.
func (g *group) led() int {
	leads := map[string]bool{}
	for _, one := range g.all() {
		if !one.alive() {
			continue
		}
		for lock, is := range leading(one.Events()) {
			leads[lock] = leads[lock] || is
		}
	}
	n := 0
	for _, is := range leads {
		if is {
			n++
		}
	}
	return n
}

// leading says for each lock whether a process leads by the last that it printed.
func leading(printed []events.Event) map[string]bool {
	leads := map[string]bool{}
	for _, e := range printed {
		switch e.Event {
		case "leading":
			leads[e.Lock] = true
		case "stopping":
			leads[e.Lock] = false
		}
	}
	return leads
}

// tellLosses prints how many terms the runs of a ledger lost, and how many of them
// falsely. It prints nothing of runs with one lock.
func tellLosses(to io.Writer, all []result) error {
	var lost, falsely, runs int
	for _, r := range all {
		g, has := r.Groups[onLocks]
		if !has {
			continue
		}
		lost, falsely = lost+g.Losses, falsely+g.FalseLosses
		if g.FalseLosses > 0 {
			runs++
		}
	}
	if locksOf(all) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(to, "With %d locks in each process %d terms were lost, %d of them though nothing was wrong, in %d runs.\n", locksOf(all), lost, falsely, runs)
	return err
}
