// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/zonelect/zonelect/test/events"
)

// span is a time in which a program led: from the first to the last act of its
// work, as it printed them, or to when it was killed. That an API server went
// away, or that another holds the lock by now, ends no span: only the end of the
// work does.
type span struct {
	pod        string
	legacy     bool
	start, end time.Time
	open       bool      // it leads still, and end is when the history was taken
	gone       time.Time // when its pod was removed, if it was
}

// history is what the programs of one lock have done.
type history []span

// overlap is a time in which two programs led.
type overlap struct{ first, second span }

// ours reports whether a candidate takes part. Legacy programs among themselves
// are theirs to answer for.
func (o overlap) ours() bool { return !o.first.legacy || !o.second.legacy }

// length is how long both led. The second began last.
func (o overlap) length() time.Duration {
	end := o.first.end
	if o.second.end.Before(end) {
		end = o.second.end
	}
	return end.Sub(o.second.start)
}

func (o overlap) String() string {
	return fmt.Sprintf("%s began to lead while %s led, and both did for %v", o.second.pod, o.first.pod, o.length())
}

// ordered returns the history by when its spans began.
func (h history) ordered() history {
	return slices.SortedFunc(slices.Values(h), func(a, b span) int { return a.start.Compare(b.start) })
}

// overlaps returns all pairs of spans that share a time.
func (h history) overlaps() (all []overlap) {
	h = h.ordered()
	for i, a := range h {
		for _, b := range h[i+1:] {
			if b.start.Before(a.end) {
				all = append(all, overlap{a, b})
			}
		}
	}
	return all
}

// judgeOverlaps fails for those in which a candidate takes part, and returns how
// many there are of them and of others.
func judgeOverlaps(t *testing.T, h history) (ours, theirs int) {
	t.Helper()
	for _, o := range h.overlaps() {
		if o.ours() {
			ours++
			t.Error(o)
		} else {
			theirs++
			t.Logf("legacy programs among themselves: %v", o)
		}
	}
	return ours, theirs
}

// changes counts how often another pod led than before.
func (h history) changes() (n int) {
	h = h.ordered()
	for i := 1; i < len(h); i++ {
		if h[i].pod != h[i-1].pod {
			n++
		}
	}
	return n
}

// gap is a time in which nobody led, between two spans.
type gap struct{ last, next span }

func (g gap) length() time.Duration { return g.next.start.Sub(g.last.end) }

// owed is when somebody could lead at the earliest: when the last leader had
// stopped and, if it was removed for the next one's sake, its pod was gone.
func (g gap) owed() time.Time {
	if g.last.gone.After(g.last.end) && g.last.gone.Before(g.next.start) {
		return g.last.gone
	}
	return g.last.end
}

// gaps returns the times in which nobody led, from the first span on.
func (h history) gaps() (all []gap) {
	var last span
	for i, s := range h.ordered() {
		if i > 0 && s.start.After(last.end) {
			all = append(all, gap{last, s})
		}
		if s.end.After(last.end) {
			last = s
		}
	}
	return all
}

// termsOf returns the times in which a program led, by what it printed. The
// last one lasts as long as the program, unless its work has stopped.
func termsOf(program span, printed []events.Event) (h history) {
	for _, e := range printed {
		switch e.Event {
		case "leading":
			program.start = e.Time
			h = append(h, program)
		case "stopped":
			if n := len(h); n > 0 {
				h[n-1].end, h[n-1].open = e.Time, false
			}
		}
	}
	return h
}

// led is a span in seconds, of a pod whose name says what it is.
func led(pod string, from, to int) span {
	return span{pod: pod, legacy: pod[0] == 'o', start: time.Unix(int64(from), 0), end: time.Unix(int64(to), 0)}
}

// The judges below judge the runs on a real control plane: one that finds
// nothing in a wrong history makes each of those worth nothing.

func TestATermLastsUntilTheWorkHasStopped(t *testing.T) {
	var printed []events.Event
	for second, event := range []string{"started", "following", "leading", "error", "stopping", "stopped", "released", "leading", "stopping"} {
		printed = append(printed, events.Event{Event: event, Time: time.Unix(int64(second), 0)})
	}
	h := termsOf(span{pod: "new-0", end: time.Unix(20, 0), open: true}, printed)
	if len(h) != 2 || h[0] != led("new-0", 2, 5) || h[1].end != time.Unix(20, 0) || !h[1].open {
		t.Errorf("the terms are %+v, want one until the work had stopped and one that lasts", h)
	}
}

func TestTermsThatShareATimeAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		history      history
		ours, theirs int
	}{
		"one after the other":     {history{led("old-0", 0, 5), led("new-0", 5, 9), led("new-1", 20, 30)}, 0, 0},
		"two candidates":          {history{led("new-0", 0, 5), led("new-1", 4, 9)}, 1, 0},
		"a candidate comes early": {history{led("old-0", 0, 5), led("new-0", 4, 9)}, 1, 0},
		"a candidate stays long":  {history{led("new-0", 0, 5), led("old-0", 4, 9)}, 1, 0},
		"within another's term":   {history{led("new-0", 0, 9), led("new-1", 4, 5), led("new-2", 6, 7)}, 2, 0},
		"not in order":            {history{led("new-1", 4, 9), led("new-0", 0, 5)}, 1, 0},
		"legacy programs":         {history{led("old-0", 0, 5), led("old-1", 4, 9), led("new-0", 9, 10)}, 0, 1},
		"the same pod twice":      {history{led("new-0", 0, 5), led("new-0", 4, 9)}, 1, 0},
	} {
		var ours, theirs int
		for _, o := range c.history.overlaps() {
			if o.ours() {
				ours++
			} else {
				theirs++
			}
		}
		if ours != c.ours || theirs != c.theirs {
			t.Errorf("%s: %d overlaps with a candidate and %d without, want %d and %d", name, ours, theirs, c.ours, c.theirs)
		}
	}
}

func TestEachGapBetweenTermsIsFound(t *testing.T) {
	h := history{led("old-0", 0, 5), led("old-0", 6, 9), led("old-1", 7, 8), led("new-0", 9, 10), led("new-1", 25, 30)}
	h[3].gone = time.Unix(12, 0)
	gaps := h.gaps()
	if len(gaps) != 2 || gaps[0].length() != time.Second || gaps[1].length() != 15*time.Second {
		t.Fatalf("the gaps are %v, want one of 1s and one of 15s", gaps)
	}
	if g := gaps[1]; g.last.pod != "new-0" || g.next.pod != "new-1" || g.next.start.Sub(g.owed()) != 13*time.Second {
		t.Errorf("the second gap is %v, want one from new-0 to new-1, 13s of it after the pod was gone", g)
	}
}

func TestOnlyAnotherPodIsAnotherLeader(t *testing.T) {
	h := history{led("old-0", 0, 5), led("old-0", 6, 9), led("new-0", 9, 10), led("old-0", 25, 30)}
	if n := h.changes(); n != 2 {
		t.Errorf("%d changes of leader, want 2", n)
	}
}
