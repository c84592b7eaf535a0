// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package history judges when programs led, by what they printed themselves.
package history

import (
	"fmt"
	"slices"
	"time"

	"github.com/zonelect/zonelect/test/kit/events"
)

// Span is a time in which a program led: from the first to the last act of its
// work, as it printed them, or to when it was killed. That an API server went
// away, or that another holds the lock by now, ends no span: only the end of the
// work does.
type Span struct {
	Pod        string
	Legacy     bool
	Start, End time.Time
	Open       bool      // it leads still, and End is when the history was taken
	Gone       time.Time // when its pod was removed, if it was
}

// History is what the programs of one lock have done.
type History []Span

// Overlap is a time in which two programs led.
type Overlap struct{ First, Second Span }

// Ours reports whether a candidate takes part. Legacy programs among themselves
// are theirs to answer for.
func (o Overlap) Ours() bool { return !o.First.Legacy || !o.Second.Legacy }

// Length is how long both led. The second began last.
func (o Overlap) Length() time.Duration {
	end := o.First.End
	if o.Second.End.Before(end) {
		end = o.Second.End
	}
	return end.Sub(o.Second.Start)
}

func (o Overlap) String() string {
	return fmt.Sprintf("%s began to lead while %s led, and both did for %v", o.Second.Pod, o.First.Pod, o.Length())
}

// ordered returns the history by when its spans began.
func (h History) ordered() History {
	return slices.SortedFunc(slices.Values(h), func(a, b Span) int { return a.Start.Compare(b.Start) })
}

// Overlaps returns all pairs of spans that share a time.
func (h History) Overlaps() (all []Overlap) {
	h = h.ordered()
	for i, a := range h {
		for _, b := range h[i+1:] {
			if b.Start.Before(a.End) {
				all = append(all, Overlap{a, b})
			}
		}
	}
	return all
}

// Changes counts how often another pod led than before.
func (h History) Changes() (n int) {
	h = h.ordered()
	for i := 1; i < len(h); i++ {
		if h[i].Pod != h[i-1].Pod {
			n++
		}
	}
	return n
}

// Gap is a time in which nobody led, between two spans.
type Gap struct{ Last, Next Span }

// Length is how long nobody led.
func (g Gap) Length() time.Duration { return g.Next.Start.Sub(g.Last.End) }

// Owed is when somebody could lead at the earliest: when the last leader had
// stopped and, if it was removed for the next one's sake, its pod was gone.
func (g Gap) Owed() time.Time {
	if g.Last.Gone.After(g.Last.End) && g.Last.Gone.Before(g.Next.Start) {
		return g.Last.Gone
	}
	return g.Last.End
}

// Gaps returns the times in which nobody led, from the first span on.
func (h History) Gaps() (all []Gap) {
	var last Span
	for i, s := range h.ordered() {
		if i > 0 && s.Start.After(last.End) {
			all = append(all, Gap{last, s})
		}
		if s.End.After(last.End) {
			last = s
		}
	}
	return all
}

// TermsOf returns the times in which a program led, by what it printed. The
// last one lasts as long as the program, unless its work has stopped.
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
