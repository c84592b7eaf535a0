// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/history"
)

// evidence is all that is known of one group's run.
type evidence struct {
	// Register is its whole history, in etcd's order. Unread means that it
	// could not be read.
	Register history.Register
	Unread   bool `json:",omitempty"`
	// Printed is what each candidate printed, by its identity.
	Printed history.Printed
	// Terms are the times in which they led.
	Terms history.History
	// Exits are how the candidates ended, by their identity.
	Exits map[string]exit
	// Fault is when it began, Healed when all was well again, and Over when the
	// candidates were told to stop.
	Fault, Healed, Over time.Time
	// Ended means that all candidates ended in good order when they were told to.
	Ended bool `json:",omitempty"`
	// Mending is when undoing the faults began.
	Mending time.Time
	// Timings are those of the candidates, by their identity.
	Timings map[string]election.Timing
	// Peers are client-go's candidates in a group of zonelect's. Hands means
	// that somebody edited or deleted their Lease.
	Peers map[string]bool `json:",omitempty"`
	Hands bool            `json:",omitempty"`
	// Bites are when each fault bit, in that order.
	Bites []bite
}

// findings are what a judge found.
type findings struct {
	// Overlaps are pairs of candidates that worked at the same time, going by what
	// they printed, or pairs one of which wrote in an earlier term after the other
	// had written in a later one: see package history.
	Overlaps int `json:"overlaps"`
	// Theirs are overlaps between zonelect's candidates and client-go's that
	// client-go causes: it works on in a term that is over, or takes a Lease as
	// soon as somebody has emptied or deleted it.
	Theirs int `json:"theirs,omitempty"`
	// Lost are writes that were acknowledged and are not in the history.
	Lost int `json:"lost"`
	// Late are writes that were sent in their term, were not acknowledged, and
	// arrived all the same after a later one. Nobody can call them back: only a
	// register that compares tokens refuses them.
	Late int `json:"late,omitempty"`
	// Gap is the longest time without a leader's write since the fault.
	Gap metav1.Duration `json:"gap"`
	// Silent means that nobody wrote after all was well again.
	Silent bool `json:"silent,omitempty"`
	// Terms are how often a term began since the fault, and Changes how often
	// its leader was not the previous one.
	Terms   int `json:"terms"`
	Changes int `json:"changes"`
	// Writes are the acknowledged ones.
	Writes int `json:"writes"`
	// Exits are candidates that ended by themselves, in a panic, or otherwise
	// than they were told to.
	Exits int `json:"exits,omitempty"`
	// Left is the largest number of goroutines that a candidate left when it
	// ended.
	Left int `json:"left,omitempty"`
	// Notes describe each overlap, each lost write and each such end.
	Notes []string `json:"notes,omitempty"`

	pairs map[[2]string]bool
	gaps  []gap
}

// judge finds what is wrong in a group's run. It is pure.
func judge(e evidence) (f findings) {
	if !e.Unread {
		f.order(e)
		f.lost(e)
	}
	f.works(e)
	f.lull(e)
	f.exits(e)
	for _, printed := range e.Printed {
		for _, event := range printed {
			f.Left = max(f.Left, event.Goroutines)
		}
	}
	return f
}

// order judges the register: see history.Register.Overlaps.
func (f *findings) order(e evidence) {
	overlaps, late := e.Register.Overlaps(e.Printed)
	for _, o := range overlaps {
		f.overlap(e, o.Revision.Identity, o.After.Identity, "%v", o)
	}
	f.Late += late
}

// lost checks that each acknowledged write is where the answer said.
func (f *findings) lost(e evidence) {
	at := map[uint64]history.Write{}
	for _, r := range e.Register {
		at[r.Version] = r.Write()
	}
	for w, report := range e.Printed.Writes() {
		if !report.Acknowledged() {
			continue
		}
		f.Writes++
		version, err := strconv.ParseUint(report.Version, 10, 64)
		if found, ok := at[version]; err != nil || !ok || found != w {
			f.Lost++
			f.note("write %d of term %d by %s was acknowledged as revision %s, where there is %+v", w.Sequence, w.Token, w.Identity, report.Version, found)
		}
	}
}

// works judges what the programs printed about their own work.
func (f *findings) works(e evidence) {
	for _, o := range e.Terms.Overlaps() {
		f.overlap(e, o.First.Pod, o.Second.Pod, "%v", o)
	}
	last := ""
	for _, term := range slices.SortedFunc(slices.Values(e.Terms), func(a, b history.Span) int { return a.Start.Compare(b.Start) }) {
		if !e.Fault.IsZero() && term.Start.After(e.Fault) && !term.Start.After(e.Over) { // while all are being stopped, each may lead in turn
			f.Terms++
			if last != "" && term.Pod != last {
				f.Changes++
			}
		}
		last = term.Pod
	}
}

// lull finds the times between two acknowledged writes of any term, since the
// fault, and the longest of these times.
func (f *findings) lull(e evidence) {
	var acks []events.Event
	for w, report := range e.Printed.Writes() {
		if report.Acknowledged() && !report.Time.After(e.Over) {
			report.Identity = w.Identity
			acks = append(acks, report)
		}
	}
	slices.SortFunc(acks, func(a, b events.Event) int { return a.Time.Compare(b.Time) })
	f.Silent = len(acks) == 0 || acks[len(acks)-1].Time.Before(e.Healed)
	if f.Silent {
		acks = append(acks, events.Event{Time: e.Over})
	}
	for i := 1; i < len(acks); i++ {
		a, b := acks[i-1], acks[i]
		if !b.Time.After(e.Fault) {
			continue
		}
		one := gap{from: a.Time, to: b.Time, within: a.Token == b.Token && a.Identity == b.Identity}
		one.released = e.released(one, a.Identity)
		one.by = e.ledIn(one, a.Identity, b.Identity)
		f.gaps = append(f.gaps, one)
		f.Gap.Duration = max(f.Gap.Duration, one.length())
	}
}

// released reports whether a candidate released the lease in a gap.
func (e evidence) released(g gap, who string) bool {
	return slices.ContainsFunc(e.Printed[who], func(x events.Event) bool {
		return x.Event == "released" && x.Time.After(g.from) && x.Time.Before(g.to)
	})
}

// ledIn are the candidates that led before a gap, began to lead in it, and led
// after it. It is empty where nobody led after it.
func (e evidence) ledIn(g gap, before, after string) []string {
	if after == "" {
		return nil
	}
	by := []string{before, after}
	for _, term := range e.Terms {
		if term.Start.After(g.from) && term.Start.Before(g.to) {
			by = append(by, term.Pod)
		}
	}
	slices.Sort(by)
	return slices.Compact(by)
}

// exit is how a candidate ended.
type exit struct {
	// Running means that it has not ended, and Started that it had reported its
	// start.
	Running bool `json:",omitempty"`
	Started bool `json:",omitempty"`
	// Told means that it was asked to exit, and Killed that it was killed, or
	// that its zone lost its power.
	Told, Killed bool `json:",omitempty"`
	// Status is what it ended with: empty is status 0.
	Status string `json:",omitempty"`
	// Panic is the line of its log that reports a panic or a fatal error.
	Panic string `json:",omitempty"`
}

// The exit statuses of programs that are killed, or asked to exit before they
// handle that signal.
const (
	killedStatus     = "signal: killed"
	terminatedStatus = "signal: terminated"
)

// wrong says what is wrong with it, or nothing if it ended as it should.
func (x exit) wrong() string {
	switch {
	case x.Panic != "":
		return x.Panic
	case x.Running, x.Told && x.Status == "", x.Killed && x.Status == killedStatus:
		return ""
	case x.Told && !x.Started && x.Status == terminatedStatus:
		return "" // it did not handle the signal yet
	case x.Told || x.Killed:
		return "ended with " + cmp.Or(x.Status, "status 0")
	}
	return "ended by itself with " + cmp.Or(x.Status, "status 0")
}

// exits judges how candidates ended.
func (f *findings) exits(e evidence) {
	for _, identity := range slices.Sorted(maps.Keys(e.Exits)) {
		if wrong := e.Exits[identity].wrong(); wrong != "" && !e.Peers[identity] {
			f.Exits++
			f.note("%s: %s", identity, wrong)
		}
	}
}

// overlap counts a pair once, and notes what showed it first: the previous
// leader was still at work when the next one was.
func (f *findings) overlap(e evidence, before, next, format string, args ...any) {
	pair := [2]string{min(before, next), max(before, next)}
	if f.pairs[pair] {
		return
	}
	if f.pairs == nil {
		f.pairs = map[[2]string]bool{}
	}
	f.pairs[pair] = true
	if e.Peers[before] || e.Hands && e.Peers[next] {
		f.Theirs++
	} else {
		f.Overlaps++
	}
	f.note(format, args...)
}

func (f *findings) note(format string, args ...any) {
	const most = 20
	if len(f.Notes) < most {
		f.Notes = append(f.Notes, fmt.Sprintf(format, args...))
	}
}
