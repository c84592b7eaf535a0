// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package history judges whether two leaders worked at the same time. It has two
// sources: the spans of work that programs printed (History), and the order of the
// writes that reached a register (Register).
//
// Each suite decides what an overlap means: some are the fault of other
// programs, and some are documented.
package history

import (
	"fmt"
	"slices"
	"time"

	"github.com/zonelect/zonelect/test/kit/events"
)

// Span is a time in which a program led: from the first to the last act of its
// work, as it printed them, or until it was killed. Only the end of the work ends
// a span. An API server that goes away does not, nor does another holder of the
// lock.
type Span struct {
	Pod        string
	Legacy     bool
	Start, End time.Time
	Open       bool // it still leads, and End is when the history was taken
}

// History is the spans of work of the programs that compete for one lock.
type History []Span

// Overlap is a time in which two programs led.
type Overlap struct{ First, Second Span }

// Ours reports whether one of the two is a zonelect candidate. zonelect does
// not answer for two legacy programs.
func (o Overlap) Ours() bool { return !o.First.Legacy || !o.Second.Legacy }

func (o Overlap) String() string {
	both := min(o.First.End.Sub(o.Second.Start), o.Second.End.Sub(o.Second.Start))
	return fmt.Sprintf("%s began to lead while %s led, and both did for %v", o.Second.Pod, o.First.Pod, both)
}

// Overlaps returns all pairs of spans that share a time, in the order in which
// the first of each pair began. Two spans of one pod are a pair like any other:
// its container was restarted while the work went on.
func (h History) Overlaps() (all []Overlap) {
	h = slices.SortedFunc(slices.Values(h), func(a, b Span) int { return a.Start.Compare(b.Start) })
	for i, a := range h {
		for _, b := range h[i+1:] {
			if b.Start.Before(a.End) {
				all = append(all, Overlap{a, b})
			}
		}
	}
	return all
}

// TermsOf returns the spans in which a program led, from its printed events. The
// last span ends with the program, unless its work stopped earlier.
func TermsOf(program Span, printed []events.Event) (h History) {
	for _, e := range printed {
		switch e.Event {
		case "leading":
			program.Start = e.Time
			h = append(h, program)
		case "stopped":
			if n := len(h); n > 0 {
				h[n-1].End, h[n-1].Open = e.Time, false
			}
		}
	}
	return h
}
