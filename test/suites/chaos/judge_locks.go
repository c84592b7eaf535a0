// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/history"
)

// judge finds what is wrong with a group's run, at all of its locks.
func (g *group) judge(all map[string]evidence) findings {
	var each []findings
	var batch time.Duration
	for _, lock := range g.parts() {
		each = append(each, judge(all[lock]))
	}
	if g.locks > 0 {
		batch = batchOf(g.parts(), all)
	}
	return together(each, batch)
}

// together is what was found at several locks. What is about whole processes was
// found at each of them.
func together(each []findings, batch time.Duration) findings {
	f := each[0]
	f.Batch.Duration = batch
	for _, one := range each[1:] {
		f.Overlaps += one.Overlaps
		f.Theirs += one.Theirs
		f.Lost += one.Lost
		f.Late += one.Late
		f.Terms += one.Terms
		f.Writes += one.Writes
		f.Losses += one.Losses
		f.FalseLosses += one.FalseLosses
		f.Silent = f.Silent || one.Silent
		f.Gap.Duration = max(f.Gap.Duration, one.Gap.Duration)
		f.Changes = max(f.Changes, one.Changes)
		f.gaps = append(f.gaps, one.gaps...)
		for _, note := range one.Notes {
			if !slices.Contains(f.Notes, note) {
				f.note("%s", note)
			}
		}
	}
	return f
}

// batchOf is how long it took until somebody led at all locks for the first time, from
// the first of them on.
func batchOf(locks []string, all map[string]evidence) time.Duration {
	var first, last time.Time
	for _, lock := range locks {
		terms := all[lock].begun()
		if len(terms) == 0 {
			continue
		}
		if began := terms[0].from; first.IsZero() || began.Before(first) {
			first = began
		}
		last = later(last, terms[0].from)
	}
	return last.Sub(first).Round(time.Millisecond)
}

// tenure is a term at one of many locks, as its leader printed it: until its work
// stopped, or its process was stopped or ended. Cause is why its work stopped.
type tenure struct {
	who      string
	from, to time.Time
	cause    string
}

// begun are all terms at a lock, in the order in which they began. What a process did
// of a term after it had been stopped is no other term.
func (e evidence) begun() (all []tenure) {
	for who, printed := range e.Printed {
		for i, x := range printed {
			at := slices.IndexFunc(e.Terms, func(s history.Span) bool { return s.Pod == who && s.Start.Equal(x.Time) })
			if x.Event != "leading" || at < 0 {
				continue
			}
			one := tenure{who: who, from: x.Time, to: e.Terms[at].End}
			one.cause = stoppedBy(printed[i+1:], one.to)
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b tenure) int { return a.from.Compare(b.from) })
	return all
}

// stoppedBy is why the work of a term stopped, if that was before its end.
func stoppedBy(then []events.Event, end time.Time) string {
	for _, x := range then {
		switch {
		case x.Event == "leading", x.Event == "stopping" && x.Time.After(end):
			return ""
		case x.Event == "stopping":
			return x.Cause
		}
	}
	return ""
}

// ranOut is how the elector says that a term's trust ran out.
const ranOut = "no renewal was acknowledged"

// lost reports whether the elector lost the term.
func (t tenure) lost() bool { return strings.HasPrefix(t.cause, election.ErrLost.Error()) }

// until is when the leader was the leader for all that it knows: if its trust ran
// out, at its last renewal.
func (t tenure) until(timing election.Timing) time.Time {
	if strings.Contains(t.cause, ranOut) {
		return later(t.from, t.to.Add(-timing.WithDefaults().RenewDeadline))
	}
	return t.to
}

// tenures judges the terms at one of many locks. Their works write too seldom to tell
// when nobody led, so a gap lasts from a term's end to the beginning of the next one.
func (f *findings) tenures(e evidence) {
	all := e.begun()
	for i, t := range all {
		f.ended(e, t, all[i+1:])
	}
	if len(all) == 0 {
		f.Silent = true
		return
	}
	last := all[0]
	for _, next := range all[1:] {
		if next.from.After(e.Over) {
			break // while all are being stopped, each may lead in turn
		}
		f.gap(e, gap{from: last.until(e.Timings[last.who]), to: next.from}, last.who, next.who)
		if next.to.After(last.to) {
			last = next
		}
	}
	if f.Silent = last.to.Before(e.Over); f.Silent {
		f.gap(e, gap{from: last.until(e.Timings[last.who]), to: e.Over}, last.who, "")
	}
}

// gap notes a time without a leader.
func (f *findings) gap(e evidence, one gap, before, after string) {
	if !one.to.After(e.Fault) || !one.from.Before(one.to) {
		return
	}
	one.released = e.released(one, before)
	one.by = e.ledIn(one, before, after)
	f.gaps = append(f.gaps, one)
	f.Gap.Duration = max(f.Gap.Duration, one.length())
}

// ended counts a term that was lost. That is false if nothing was wrong, and nobody
// else had begun to lead.
func (f *findings) ended(e evidence, t tenure, after []tenure) {
	if !t.lost() || t.to.After(e.Over) || t.to.After(e.Healed) && e.Well.IsZero() {
		return
	}
	f.Losses++
	well := !e.Well.IsZero() && t.to.After(e.Well) && t.until(e.Timings[t.who]).After(e.Healed) // or the fault has cost its renewals
	calm := t.to.Before(e.Fault) || well || e.Harmless
	if calm && (len(after) == 0 || !after[0].from.Before(t.to)) && !e.unheard(t) {
		f.FalseLosses++
		f.note("%s lost its term at %s though nothing was wrong: %s", t.who, e.Lock, t.cause)
	}
}

// unheard reports whether the trust in a term ran out while the API answered none of
// the process's writes for all that the term could still use: whatever was sent after
// the first half of the RenewDeadline. The machine is to blame then.
func (e evidence) unheard(t tenure) bool {
	if !strings.Contains(t.cause, ranOut) {
		return false
	}
	since := t.to.Add(-e.Timings[t.who].WithDefaults().RenewDeadline / 2)
	return !slices.ContainsFunc(e.Acked[t.who], func(w sent) bool { return w.at.After(since) && w.answered.Before(t.to) })
}

// sent is a write that was acknowledged.
type sent struct{ at, answered time.Time }

// ackedBy are the acknowledged writes of a process, at all of its locks.
func ackedBy(printed []events.Event) (all []sent) {
	for _, e := range printed {
		if e.Acknowledged() {
			all = append(all, sent{e.Sent, e.Time})
		}
	}
	return all
}
