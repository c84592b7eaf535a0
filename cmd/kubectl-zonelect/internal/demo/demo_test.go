// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election/timing"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

// good is a demonstration in which every promise is kept: by the default timing, 15/10/2.
func good() Seen {
	term := func(who string, token uint64, from, to float64, last Kind) []Event {
		events := []Event{{Time: at(from), Candidate: who, Kind: Leading, Token: token, Cause: "expired"}}
		if last == Stopped {
			events = append(events, Event{Time: at(to), Candidate: who, Kind: Stopping, Cause: "elector stopped"})
		}
		return append(events, Event{Time: at(to), Candidate: who, Kind: last})
	}
	return Seen{
		Timing: timing.Timing{}.WithDefaults(), Slowest: 10 * time.Millisecond,
		Events: slices.Concat(
			term("candidate-1_1", 7, 1, 5, Stopped), term("candidate-2_1", 8, 5.05, 8, Killed),
			[]Event{{Time: at(8), Candidate: "candidate-1_2", Kind: Following, Leader: "candidate-2_1"}},
			term("candidate-3_1", 9, 22.1, 34, Stopped), term("candidate-1_2", 11, 39.3, 44, Stopped),
			[]Event{{Time: at(41), Candidate: "candidate-3_1", Kind: Following, Leader: "candidate-1_2"}, {Time: at(44), Candidate: "candidate-1_2", Kind: Ended}},
		),
		Stop:   Fault{Leader: "candidate-1_1", At: at(4.9)},
		Kill:   Fault{Leader: "candidate-2_1", At: at(7.9), LeaseEnds: at(22)},
		Cut:    Fault{Leader: "candidate-3_1", At: at(25), LeaseEnds: at(39)},
		Healed: at(40.5),
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
		"all well": {func(*Seen) {}, nil, "the next led 50 ms after the last one had stopped (at most 650 ms)"},
		"late after a stop": {func(s *Seen) { change(s, "candidate-2_1", Leading, 5.7) },
			map[string]Result{"stop": Broken}, "700 ms after the last one had stopped (at most 650 ms)"},
		"nobody after a stop": {func(s *Seen) { s.Events, s.Kill, s.Cut, s.Healed = s.Events[:3], Fault{}, Fault{}, time.Time{} },
			map[string]Result{"stop": Broken, "kill": Unknown, "trust": Unknown, "cut": Unknown, "heal": Unknown}, "nobody led after candidate-1_1"},
		"it does not stop": {func(s *Seen) { without(s, "candidate-1_1", Stopped) },
			map[string]Result{"stop": Broken, "one-leader": Broken}, "the work of candidate-1_1 did not stop"},
		"late after a kill": {func(s *Seen) { change(s, "candidate-3_1", Leading, 22.8) },
			map[string]Result{"kill": Broken}, "800 ms after the lease ended (at most 750 ms), 14.90 s after the kill"},
		"a slow cluster is not a failure": {func(s *Seen) { change(s, "candidate-3_1", Leading, 22.8); s.Slowest = 100 * time.Millisecond },
			nil, "800 ms after the lease ended (at most 950 ms)"},
		"a live lease is taken": {func(s *Seen) { change(s, "candidate-3_1", Leading, 21.9) },
			map[string]Result{"kill": Broken}, "100 ms before the lease ended"},
		"the lease is not known": {func(s *Seen) { s.Kill.LeaseEnds, s.Kill.Unknown = time.Time{}, "timeout" },
			map[string]Result{"kill": Unknown}, "when the lease ended is not known: timeout"},
		"the cut leader works on": {func(s *Seen) { change(s, "candidate-3_1", Stopped, 38.95) },
			map[string]Result{"trust": Broken}, "the leader stopped its work 14.95 s after its last renewal (at most 14.85 s)"},
		"the cut leader never stops": {func(s *Seen) { without(s, "candidate-3_1", Stopped) },
			map[string]Result{"trust": Broken, "one-leader": Broken}, "the work of candidate-3_1 did not stop"},
		"two lead after the cut": {func(s *Seen) { change(s, "candidate-3_1", Stopped, 39.4) },
			map[string]Result{"trust": Broken, "one-leader": Broken}, "two worked at the same time for 100 ms: candidate-3_1 and candidate-1_2"},
		"two lead though one term lies between": {func(s *Seen) { change(s, "candidate-1_1", Stopped, 22.2); change(s, "candidate-1_1", Stopping, 22.2) },
			map[string]Result{"stop": Broken, "one-leader": Broken}, "two worked at the same time for 2.95 s: candidate-1_1 and candidate-2_1"},
		"late after a cut": {func(s *Seen) { change(s, "candidate-1_2", Leading, 40) },
			map[string]Result{"cut": Broken}, "1.00 s after the lease ended"},
		"nobody after the cut": {func(s *Seen) {
			without(s, "candidate-1_2", Leading)
			without(s, "candidate-3_1", Following)
		}, map[string]Result{"cut": Broken, "heal": Unknown}, "nobody led after candidate-3_1"},
		"it does not follow": {func(s *Seen) { without(s, "candidate-3_1", Following) },
			map[string]Result{"heal": Broken}, "the former leader did not follow"},
		"it follows late": {func(s *Seen) { change(s, "candidate-3_1", Following, 48) },
			map[string]Result{"heal": Broken}, "the former leader followed 7.50 s after its connection was back (at most 6.60 s)"},
		"it leads again": {func(s *Seen) {
			s.Events = append(s.Events, Event{Time: at(40.8), Candidate: "candidate-3_1", Kind: Leading, Token: 12}, Event{Time: at(43), Candidate: "candidate-3_1", Kind: Stopped})
		}, map[string]Result{"heal": Broken, "one-leader": Broken}, "the former leader led again, beside candidate-1_2"},
		"a token comes again": {func(s *Seen) {
			for i := range s.Events {
				if s.Events[i].Token == 9 {
					s.Events[i].Token = 8
				}
			}
		}, map[string]Result{"tokens": Broken}, "the token did not grow: 8 of candidate-3_1, after 8 of candidate-2_1"},
		"something is left":      {func(s *Seen) { s.Left = []string{"lease a", "lease b"} }, map[string]Result{"nothing-left": Broken}, "left behind: lease a, lease b"},
		"what is left is hidden": {func(s *Seen) { s.Unswept = "forbidden" }, map[string]Result{"nothing-left": Unknown}, "what is left is not known: forbidden"},
		"nobody leads at all": {func(s *Seen) { *s = Seen{Timing: s.Timing} }, map[string]Result{
			"stop": Unknown, "kill": Unknown, "trust": Unknown, "cut": Unknown, "heal": Unknown, "one-leader": Unknown, "tokens": Unknown}, "nobody led"},
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

func TestAResultHasItsFigures(t *testing.T) {
	all := good().Judge()
	if Count(all, Kept) != len(Names()) {
		t.Fatalf("%+v", all)
	}
	if p := all[0]; p.Milliseconds == nil || *p.Milliseconds != 50 || *p.Allowed != 650 {
		t.Errorf("%+v", p)
	}
}

func TestTheEventsOfCandidatesCountByTheirTimes(t *testing.T) {
	s := good()
	slices.Reverse(s.Events)
	for _, p := range s.Judge() {
		if p.Name != "tokens" && p.Result != Kept {
			t.Errorf("%s is %s: %s", p.Name, p.Result, p.Text)
		}
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
