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

	"github.com/zonelect/zonelect/test/kit/history"
)

// evidence is all that is known of one group's run.
type evidence struct {
	// Register is its whole history, in etcd's order. Unread means that it
	// could not be read.
	Register history.Register
	Unread   bool
	// Printed is what each candidate printed, by its identity.
	Printed history.Printed
	// Terms are the times in which they led.
	Terms history.History
	// Exits are how the candidates ended, by their identity.
	Exits map[string]exit
	// Fault is when it began, Healed when all was well again, and Over when the
	// candidates were told to stop.
	Fault, Healed, Over time.Time
}

// findings are what a judge found.
type findings struct {
	// Overlaps are terms that overlapped with another, going by what was printed, and
	// writes of an earlier term while a later one wrote: see package history.
	Overlaps int
	// Lost are writes that were acknowledged and are not in the history.
	Lost int
	// Gap is the longest time without a leader's write since the fault. It is
	// recorded, not judged.
	Gap time.Duration
	// Silent means that nobody wrote after all was well again.
	Silent bool
	// Exits are candidates that ended by themselves, in a panic, or otherwise
	// than they were told to.
	Exits int
	// Left is the largest number of goroutines that a candidate left when it
	// ended.
	Left int
	// Notes describe each overlap, each lost write and each such end.
	Notes []string
}

// judge finds what is wrong in a group's run. It is pure.
func judge(e evidence) (f findings) {
	if !e.Unread {
		overlaps, _ := e.Register.Overlaps(e.Printed) // late writes nobody can call back
		for _, o := range overlaps {
			f.overlap(o)
		}
		f.lost(e)
	}
	for _, o := range e.Terms.Overlaps() {
		f.overlap(o)
	}
	f.lull(e)
	f.exits(e)
	for _, printed := range e.Printed {
		for _, event := range printed {
			f.Left = max(f.Left, event.Goroutines)
		}
	}
	return f
}

// mostLeft is how many goroutines may be left when a candidate ends: those of
// the runtime, of signals, and of connections that others keep.
const mostLeft = 8

// unsafe says what must not happen in any run.
func (f findings) unsafe() (wrong []string) {
	for _, x := range []struct {
		count, most int
		what        string
	}{
		{f.Overlaps, 0, "overlaps"}, {f.Lost, 0, "lost writes"},
		{f.Exits, 0, "candidates ended as nobody told them to"}, {f.Left, mostLeft, "goroutines were left"},
	} {
		if x.count > x.most {
			wrong = append(wrong, fmt.Sprint(x.count, " ", x.what))
		}
	}
	if len(f.Notes) > 0 && len(wrong) > 0 {
		wrong = append(wrong, f.Notes[0])
	}
	return wrong
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
		version, err := strconv.ParseUint(report.Version, 10, 64)
		if found, ok := at[version]; err != nil || !ok || found != w {
			f.Lost++
			f.note("write %d of term %d by %s was acknowledged as revision %s, where there is %+v",
				w.Sequence, w.Token, w.Identity, report.Version, found)
		}
	}
}

// lull finds the longest time between two acknowledged writes since the fault.
func (f *findings) lull(e evidence) {
	var acks []time.Time
	for _, report := range e.Printed.Writes() {
		if report.Acknowledged() && !report.Time.After(e.Over) {
			acks = append(acks, report.Time)
		}
	}
	slices.SortFunc(acks, time.Time.Compare)
	f.Silent = len(acks) == 0 || acks[len(acks)-1].Before(e.Healed)
	if f.Silent {
		acks = append(acks, e.Over)
	}
	for i := 1; i < len(acks); i++ {
		if acks[i].After(e.Fault) {
			f.Gap = max(f.Gap, acks[i].Sub(acks[i-1]))
		}
	}
}

// exit is how a candidate ended.
type exit struct {
	// Running means that it has not ended, and Started that it had reported its
	// start.
	Running bool
	Started bool
	// Told means that it was asked to exit, and Killed that it was killed, or
	// that its zone lost its power.
	Told, Killed bool
	// Status is what it ended with: empty is status 0.
	Status string
	// Panic is the line of its log that reports a panic or a fatal error.
	Panic string
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
		if wrong := e.Exits[identity].wrong(); wrong != "" {
			f.Exits++
			f.note("%s: %s", identity, wrong)
		}
	}
}

// overlap counts what shows that the previous leader was still at work when the next one was.
func (f *findings) overlap(shown fmt.Stringer) {
	f.Overlaps++
	f.note("%v", shown)
}

func (f *findings) note(format string, args ...any) {
	const most = 20
	if len(f.Notes) < most {
		f.Notes = append(f.Notes, fmt.Sprintf(format, args...))
	}
}
