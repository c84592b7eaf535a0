// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election/timing"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

// good is a demonstration in which every promise is kept: by the default timing, 15/10/2.
func good() *Seen {
	return &Seen{
		Timing:    timing.Timing{}.WithDefaults(),
		Terms:     []Term{{"a", 7, at(1), at(5)}, {"b", 8, at(5.05), at(17)}, {"c", 9, at(22.1), at(30)}},
		LeaseEnds: at(22), Healed: at(23.5), Followed: at(24),
	}
}

// TestEachPromiseIsJudgedByWhatWasSeen: a run that differs from a good one in one respect breaks the
// promises that this is about, and no others.
func TestEachPromiseIsJudgedByWhatWasSeen(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/demo.md")
	if err != nil {
		t.Fatal(err)
	}
	const missing = "it did not come to that"
	for name, tc := range map[string]struct {
		breaks func(*Seen)
		broken string // the others are kept
		says   string
	}{
		"all well":             {func(*Seen) {}, "", "the next led 50ms after the last one had stopped (at most 2s)"},
		"late after a stop":    {func(s *Seen) { s.Terms[1].From = at(7.1) }, "stop", "2.1s after the last one had stopped (at most 2s)"},
		"nobody after a stop":  {func(s *Seen) { *s = Seen{Timing: s.Timing, Terms: s.Terms[:1]} }, "stop trust cut heal", missing},
		"it does not stop":     {func(s *Seen) { s.Terms[0].To = time.Time{} }, "stop one-leader", missing},
		"a live lease taken":   {func(s *Seen) { s.Terms[2].From = at(21.9) }, "cut", "-100ms after the lease ended"},
		"the lease is unknown": {func(s *Seen) { s.LeaseEnds = time.Time{} }, "trust cut", missing},
		"the cut one goes on":  {func(s *Seen) { s.Terms[1].To = at(21.95) }, "trust", "its work 14.95s after its last renewal (at most 14.85s)"},
		"the cut leader stays": {func(s *Seen) { s.Terms[1].To = time.Time{} }, "trust one-leader", missing},
		"two lead after a cut": {func(s *Seen) { s.Terms[1].To = at(22.4) }, "trust one-leader", "15.4s after its last renewal"},
		"late after a cut":     {func(s *Seen) { s.Terms[2].From = at(25) }, "cut", "3s after the lease ended"},
		"it does not follow":   {func(s *Seen) { s.Followed = time.Time{} }, "heal", missing},
		"a token comes again":  {func(s *Seen) { s.Terms[2].Token = 8 }, "tokens", "token"},
		"something is left":    {func(s *Seen) { s.Unswept = "forbidden" }, "nothing-left", "forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			s := good()
			tc.breaks(s)
			var broken []string
			texts := ""
			for _, p := range s.Judge() {
				if !p.Kept {
					broken = append(broken, p.Name)
				}
				if texts += p.Text + "\n"; p.Link != Page+"#"+p.Name || !strings.Contains(string(page), "\n### "+p.Name+"\n\n") {
					t.Errorf("docs/demo.md does not have %s", p.Link)
				}
			}
			if strings.Join(broken, " ") != tc.broken || !strings.Contains(texts, tc.says) {
				t.Errorf("%q are broken, want %q:\n%s", broken, tc.broken, texts)
			}
		})
	}
}

// TestACutWireHoldsUpBothDirectionsUntilItIsWhole.
func TestACutWireHoldsUpBothDirectionsUntilItIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Wire
		near, far := net.Pipe()
		c, err := w.Through(func(context.Context, string, string) (net.Conn, error) { return near, nil })(t.Context(), "tcp", "server:443")
		if err != nil {
			t.Fatal(err)
		}
		came := make(chan string, 2)
		read := func(name string, from net.Conn) {
			if _, err := from.Read(make([]byte, 1)); err == nil {
				came <- name
			}
		}
		w.Cut.Store(true)
		go read("near", c)
		go read("far", far)
		go func() { _, _ = far.Write([]byte("f")) }()
		go func() { _, _ = c.Write([]byte("n")) }()
		time.Sleep(time.Minute)
		if synctest.Wait(); len(came) > 0 {
			t.Errorf("%s heard something", <-came)
		}
		w.Cut.Store(false)
		time.Sleep(time.Second)
		if synctest.Wait(); len(came) != 2 {
			t.Errorf("%d of 2 heard something", len(came))
		}
	})
}
