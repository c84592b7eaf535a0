// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"testing"
	"time"

	"github.com/zonelect/zonelect/test/kit/events"
)

// led is a span in seconds, of a pod whose name says what kind it is.
func led(pod string, from, to int) Span {
	return Span{Pod: pod, Legacy: pod[0] == 'o', Start: time.Unix(int64(from), 0), End: time.Unix(int64(to), 0)}
}

// unfinished is a span that still goes on.
func unfinished(pod string, from, now int) Span {
	s := led(pod, from, now)
	s.Open = true
	return s
}

// The tests on a real control plane rely on these judges. If one of them finds
// nothing in a wrong history, those tests show nothing.

func TestATermLastsUntilTheWorkHasStopped(t *testing.T) {
	var printed []events.Event
	for second, event := range []string{"started", "following", "leading", "error", "stopping", "stopped", "released", "leading", "stopping"} {
		printed = append(printed, events.Event{Event: event, Time: time.Unix(int64(second), 0)})
	}
	h := TermsOf(Span{Pod: "new-0", End: time.Unix(20, 0), Open: true}, printed)
	if len(h) != 2 || h[0] != led("new-0", 2, 5) || h[1].End != time.Unix(20, 0) || !h[1].Open {
		t.Errorf("the terms are %+v, want one until the work had stopped and one that lasts", h)
	}
}

func TestTermsThatShareATimeAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		history      History
		ours, theirs int
	}{
		"one after the other":     {History{led("old-0", 0, 5), led("new-0", 5, 9), led("new-1", 20, 30)}, 0, 0},
		"two candidates":          {History{led("new-0", 0, 5), led("new-1", 4, 9)}, 1, 0},
		"a candidate comes early": {History{led("old-0", 0, 5), led("new-0", 4, 9)}, 1, 0},
		"a candidate stays long":  {History{led("new-0", 0, 5), led("old-0", 4, 9)}, 1, 0},
		"within another's term":   {History{led("new-0", 0, 9), led("new-1", 4, 5), led("new-2", 6, 7)}, 2, 0},
		"not in order":            {History{led("new-1", 4, 9), led("new-0", 0, 5)}, 1, 0},
		"legacy programs":         {History{led("old-0", 0, 5), led("old-1", 4, 9), led("new-0", 9, 10)}, 0, 1},
		"one that goes on":        {History{unfinished("new-0", 0, 9), led("new-1", 4, 5)}, 1, 0},
		"two that go on":          {History{unfinished("new-0", 0, 9), unfinished("new-1", 8, 9)}, 1, 0},
		"one that begins last":    {History{led("new-0", 0, 5), unfinished("new-1", 5, 9)}, 0, 0},
		"one pod in turn":         {History{led("new-0", 0, 5), led("new-0", 5, 9)}, 0, 0},
		"the same pod twice":      {History{led("new-0", 0, 5), led("new-0", 4, 9)}, 1, 0},
	} {
		var ours, theirs int
		for _, o := range c.history.Overlaps() {
			if o.Ours() {
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
