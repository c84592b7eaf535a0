// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"
	"testing"
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
