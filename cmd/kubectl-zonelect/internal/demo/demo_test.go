// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"context"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election/timing"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

// good is a demonstration in which every promise is kept: by the default timing, 15/10/2.
func good() Seen {
	term := func(who string, token uint64, from, to float64) []Event {
		return []Event{{Time: at(from), Candidate: who, Kind: Leading, Token: token}, {Time: at(to), Candidate: who, Kind: Stopped}}
	}
	return Seen{
		Timing: timing.Timing{}.WithDefaults(), Slowest: 10 * time.Millisecond,
		Events: slices.Concat(
			term("a", 7, 1, 5), term("b", 8, 5.05, 17), term("c", 9, 22.1, 30),
			[]Event{{Time: at(24), Candidate: "b", Kind: Following, Leader: "c"}},
		),
		Stop:   Fault{Leader: "a", At: at(4.9)},
		Cut:    Fault{Leader: "b", At: at(8), LeaseEnds: at(22)},
		Healed: at(23.5),
	}
}

// change replaces the time of an event.
func change(s *Seen, who string, kind Kind, to float64) {
	for i, e := range s.Events {
		if e.Candidate == who && e.Kind == kind {
			s.Events[i].Time = at(to)
		}
	}
}

// without leaves events out.
func without(s *Seen, who string, kind Kind) {
	s.Events = slices.DeleteFunc(s.Events, func(e Event) bool { return e.Candidate == who && e.Kind == kind })
}

// TestEachPromiseIsJudgedByWhatWasSeen: a run that differs from a good one in one respect breaks the
// promises that this is about, and no others.
func TestEachPromiseIsJudgedByWhatWasSeen(t *testing.T) {
	for name, tc := range map[string]struct {
		breaks func(*Seen)
		want   map[string]Result // the others are kept
		says   string
	}{
		"all well":          {func(*Seen) {}, nil, "the next led 50ms after the last one had stopped (at most 650ms)"},
		"late after a stop": {func(s *Seen) { change(s, "b", Leading, 5.7) }, map[string]Result{"stop": Broken}, "700ms after the last one had stopped (at most 650ms)"},
		"nobody after a stop": {func(s *Seen) { s.Events, s.Cut, s.Healed = s.Events[:2], Fault{}, time.Time{} },
			map[string]Result{"stop": Broken, "trust": Unknown, "cut": Unknown, "heal": Unknown}, "nobody led after a"},
		"it does not stop":                {func(s *Seen) { without(s, "a", Stopped) }, map[string]Result{"stop": Broken, "one-leader": Broken}, "the work of a did not stop"},
		"a slow cluster is not a failure": {func(s *Seen) { change(s, "c", Leading, 22.8); s.Slowest = 100 * time.Millisecond }, nil, "800ms after the lease ended (at most 950ms)"},
		"a live lease is taken":           {func(s *Seen) { change(s, "c", Leading, 21.9) }, map[string]Result{"cut": Broken}, "100ms before the lease ended"},
		"the lease is not known": {func(s *Seen) { s.Cut.LeaseEnds, s.Cut.Unknown = time.Time{}, "timeout" },
			map[string]Result{"cut": Unknown, "trust": Unknown}, "when the lease ended is not known: timeout"},
		"the cut leader works on":    {func(s *Seen) { change(s, "b", Stopped, 21.95) }, map[string]Result{"trust": Broken}, "its work 14.95s after its last renewal (at most 14.85s)"},
		"the cut leader never stops": {func(s *Seen) { without(s, "b", Stopped) }, map[string]Result{"trust": Broken, "cut": Broken, "one-leader": Broken}, "the work of b did not stop"},
		"two lead after the cut":     {func(s *Seen) { change(s, "b", Stopped, 22.4) }, map[string]Result{"trust": Broken, "one-leader": Broken}, "two worked at the same time: b and c"},
		"late after a cut":           {func(s *Seen) { change(s, "c", Leading, 23) }, map[string]Result{"cut": Broken}, "1s after the lease ended"},
		"nobody after the cut":       {func(s *Seen) { without(s, "c", Leading) }, map[string]Result{"cut": Broken, "heal": Unknown}, "nobody led after b"},
		"it does not follow":         {func(s *Seen) { without(s, "b", Following) }, map[string]Result{"heal": Broken}, "the former leader did not follow"},
		"a token comes again":        {func(s *Seen) { s.Events[4].Token = 8 }, map[string]Result{"tokens": Broken}, "the token did not grow"},
		"something is left":          {func(s *Seen) { s.Left = []string{"a", "b"} }, map[string]Result{"nothing-left": Broken}, "left behind: a, b"},
		"what is left is not known":  {func(s *Seen) { s.Unswept = "forbidden" }, map[string]Result{"nothing-left": Unknown}, "what is left is not known: forbidden"},
		"nobody leads at all": {func(s *Seen) { *s = Seen{Timing: s.Timing} }, map[string]Result{
			"stop": Unknown, "trust": Unknown, "cut": Unknown, "heal": Unknown, "one-leader": Unknown, "tokens": Unknown}, "nobody led"},
	} {
		t.Run(name, func(t *testing.T) {
			s := good()
			tc.breaks(&s)
			texts := ""
			for _, p := range s.Judge() {
				want := tc.want[p.Name]
				if want == "" {
					want = Kept
				}
				if p.Result != want {
					t.Errorf("%s is %s, want %s: %s", p.Name, p.Result, want, p.Text)
				}
				texts += p.Text + "\n"
			}
			if !strings.Contains(texts, tc.says) {
				t.Errorf("it does not say %q:\n%s", tc.says, texts)
			}
		})
	}
}

// TestEachPromiseHasItsParagraph in docs/demo.md.
func TestEachPromiseHasItsParagraph(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/demo.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range good().Judge() {
		_, anchor, _ := strings.Cut(p.Link, "demo.md#")
		if anchor != p.Name || !bytes.Contains(page, []byte("\n### "+anchor+"\n\n")) {
			t.Errorf("%s links to %s, which docs/demo.md does not have", p.Name, p.Link)
		}
	}
}

// TestACutWireHoldsUpBothDirectionsUntilItIsWhole, and what a closed connection held up never passes.
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
		w.Cut()
		go read("near", c)
		go read("far", far)
		go func() { _, _ = far.Write([]byte("f")) }()
		go func() { _, _ = c.Write([]byte("n")) }()
		time.Sleep(time.Hour)
		if synctest.Wait(); len(came) > 0 {
			t.Errorf("%s heard something", <-came)
		}
		w.Heal()
		if synctest.Wait(); len(came) != 2 {
			t.Errorf("%d of 2 heard something", len(came))
		}
		w.Cut()
		go read("late", far)
		go func() { _, _ = c.Write([]byte("n")) }()
		synctest.Wait()
		_ = c.Close()
		w.Heal()
		if synctest.Wait(); len(came) != 2 {
			t.Error("what was held up has passed")
		}
	})
}
