// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestWhoBeginsOverlapsWithAllWhoAreAtWork(t *testing.T) {
	var w Working[string]
	for _, c := range []struct {
		begins string
		ends   string // before that
		beside []string
	}{
		{begins: "a"},
		{begins: "b", beside: []string{"a"}},
		{begins: "c", ends: "a", beside: []string{"b"}},
		{begins: "a", ends: "b", beside: []string{"c"}},
		{begins: "a", ends: "c", beside: []string{"a"}},
		{begins: "d", ends: "a"},
	} {
		w.End(c.ends)
		if beside := w.Begin(c.begins); !slices.Equal(beside, c.beside) {
			t.Errorf("%s begins beside %v, want %v", c.begins, beside, c.beside)
		}
	}
	if !w.Has("d") || w.Has("a") || !slices.Equal(w.All(), []string{"d"}) {
		t.Errorf("at work are %v, want d alone", w.All())
	}
}

func TestARecorderKnowsWhatWorkStillRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Recorder
		start := time.Now()
		end := r.Begin("a")
		time.Sleep(5 * time.Second)
		r.Begin("b")
		time.Sleep(time.Second)
		end()
		time.Sleep(time.Second)
		h := r.History()
		if len(h) != 2 || h[0] != (Span{Pod: "a", Start: start, End: start.Add(6 * time.Second)}) ||
			h[1] != (Span{Pod: "b", Start: start.Add(5 * time.Second), End: start.Add(7 * time.Second), Open: true}) {
			t.Errorf("the history is %+v", h)
		}
		if all := h.Overlaps(); len(all) != 1 || all[0].Length() != time.Second {
			t.Errorf("the overlaps are %v, want one of 1s", all)
		}
	})
}
