// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write testdata")

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// at is so many milliseconds after noon.
func at(ms float64) time.Time { return noon.Add(time.Duration(ms * float64(time.Millisecond))) }

// powerLoss is a history with something of everything.
func powerLoss() History {
	return History{
		Title: "The leader's zone loses power", Begin: noon, End: at(60000),
		Zones: []string{"za", "zb"},
		Lanes: []Lane{
			{ID: "a", Name: "candidate-za", Zone: "za", Group: "zonelect"},
			{ID: "b", Name: "candidate-zb", Zone: "zb", Group: "zonelect"},
			{ID: "peer-zb", Zone: "zb", Group: "client-go"},
		},
		Terms: []Term{
			{Lane: "b", From: at(24892.6), Token: 1<<63 + 1, Cause: "expired"},
			{Lane: "a", From: at(0), To: at(10000), Token: 7, Cause: "vacant", Ended: "power loss"},
		},
		Faults: []Fault{
			{Kind: Power, Zone: "za", From: at(10000), Text: "za loses power"},
			{Kind: API, From: at(30000), To: at(31000)},
			{Kind: Kill, Lane: "peer-zb", From: at(40000), To: at(40000)},
		},
		Expiries: []Expiry{{Lane: "a", At: at(24887)}},
		Failovers: []Failover{{Lane: "b", Previous: "candidate-za", Cause: "expired", Token: 1<<63 + 1, Phases: []Phase{
			{Silence, at(9887), at(24887)}, {TakeoverDelay, at(24887), at(24888)}, {Acquire, at(24888), at(24892)},
			{Adopt, at(24892), at(24892.3)}, {WorkStart, at(24892.3), at(24892.6)},
		}}},
		Notes: []Note{{At: at(50000), Text: "the watching is almost over"}},
	}
}

func rendered(t *testing.T, h History) string {
	t.Helper()
	var text bytes.Buffer
	if err := Render(&text, h); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func TestTheDataOfAPageAreTheOnesInTheRepository(t *testing.T) {
	const path = "testdata/powerloss.json"
	got, err := json.MarshalIndent(newData(powerLoss().normalized()), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the data are now:\n%s\nIf that is right: go test ./internal/timeline -update", got)
	}
}

func TestAHistoryGivesTheSameBytesInWhateverOrderItWasWritten(t *testing.T) {
	one, other := powerLoss(), powerLoss()
	other.Terms[0], other.Terms[1] = other.Terms[1], other.Terms[0]
	other.Faults[0], other.Faults[2] = other.Faults[2], other.Faults[0]
	if rendered(t, one) != rendered(t, other) {
		t.Error("the pages differ")
	}
}

func TestAHistorySurvivesJSON(t *testing.T) {
	text, err := json.Marshal(powerLoss())
	if err != nil {
		t.Fatal(err)
	}
	var again History
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	if rendered(t, powerLoss()) != rendered(t, again) {
		t.Error("the pages differ")
	}
}

func TestRenderDoesNotChangeTheHistory(t *testing.T) {
	h := powerLoss()
	rendered(t, h)
	if h.Terms[0].Lane != "b" || len(h.Zones) != 2 {
		t.Errorf("it is now %+v", h)
	}
}

func TestThePageSaysEverythingWithoutThePicture(t *testing.T) {
	page := rendered(t, powerLoss())
	tables := page[strings.Index(page, `id="tables" tabindex`):strings.Index(page, `<div id="tip"`)]
	for _, want := range []string{
		"candidate-za", "candidate-zb", "peer-zb", "power loss", "goes on", "9223372036854775809", "expired", "vacant",
		"15000.0", "0.3", "15005.6", "24.893 s", "14.893 s", "2026-11-23 12:00:24.892",
		"no power: za loses power", "zone za", "API away", "everywhere", "killed", "the lease ends", "the watching is almost over",
	} {
		if !strings.Contains(tables, want) {
			t.Errorf("the tables do not say %q", want)
		}
	}
}

func TestTwoLeadersAtATimeAreCalledThat(t *testing.T) {
	if page := rendered(t, powerLoss()); strings.Contains(page, "two led for") || strings.Contains(page, "Two led at a time") {
		t.Error("the page says that two led, and they did not")
	}
	h := powerLoss()
	h.Terms[1].To = at(25000)
	page := rendered(t, h)
	for _, want := range []string{"Two led at a time, once.", `wrong">two led for 0.107 s`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	want := []overlapData{{Group: 0, Leaders: [2]int{0, 1}, Term: 1, From: 24892.6, To: 25000}}
	if got := dataOf(t, page).Overlaps; !slices.Equal(got, want) {
		t.Errorf("the picture shows %+v, want %+v", got, want)
	}
}

func TestATermIsHeldAgainstTheOneThatEndedLast(t *testing.T) {
	h := History{
		Lanes: []Lane{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "peer", Group: "client-go"}},
		Terms: []Term{
			{Lane: "a", From: at(0), To: at(100)}, {Lane: "b", From: at(10), To: at(20)}, {Lane: "c", From: at(50), To: at(60)},
			{Lane: "peer", From: at(70), To: at(80)}, {Lane: "b", From: at(100), To: at(110)},
		},
	}.normalized()
	if got := h.overlaps(); len(got) != 2 || got[0].first != 0 || got[1].first != 0 || !got[1].to.Equal(at(60)) {
		t.Errorf("%+v", got)
	}
	if got := h.changes(); got[4].Before != "0.000 s" || got[4].Overlaps || got[3].Before != "" {
		t.Errorf("%+v", got)
	}
}

func TestNamesThatContainHTMLAreShownAsText(t *testing.T) {
	const evil = `</script></style></title><script>alert(1)</script><img src=x onerror=alert(1)>"'` + "\u2028"
	h := powerLoss()
	h.Title, h.Zones[0] = evil, evil
	h.Lanes[0].Name, h.Lanes[0].Zone, h.Lanes[0].Group, h.Faults[0].Zone = evil, evil, evil, evil
	h.Terms[0].Cause, h.Terms[1].Ended, h.Faults[0].Text, h.Notes[0].Text = evil, evil, evil, evil
	h.Failovers[0].Previous, h.Failovers[0].Cause = evil, evil
	page := rendered(t, h)
	for what, want := range map[string]int{"<script": 2, "</script": 2, "</style": 1, "</title": 1, "<img": 0, "alert(1)</script": 0} {
		if got := strings.Count(page, what); got != want {
			t.Errorf("%q is there %d times, want %d", what, got, want)
		}
	}
	d := dataOf(t, page)
	if d.Lanes[0].Name != evil || d.Zones[0] != evil || d.Notes[0].Text != evil {
		t.Errorf("the script gets other names: %+v", d)
	}
}

// dataOf reads what the page's script reads.
func dataOf(t *testing.T, page string) (d data) {
	t.Helper()
	text := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindStringSubmatch(page)
	if text == nil {
		t.Fatal("the page has no data")
	}
	if err := json.Unmarshal([]byte(text[1]), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestAPageReachesForNothingOutside(t *testing.T) {
	page := rendered(t, powerLoss())
	policy := regexp.MustCompile(`http-equiv="Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(page)
	if policy == nil || !strings.HasPrefix(policy[1], "default-src 'none';") || strings.Contains(policy[1], "unsafe") {
		t.Fatalf("the policy is %q", policy)
	}
	for _, part := range regexp.MustCompile(`(?s)<(style|script)>(.*?)</`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(policy[1], "'"+hash(part[2])+"'") {
			t.Errorf("the policy does not allow the page's own %s", part[1])
		}
	}
	outside := regexp.MustCompile(`https?://[^\s"'<>]*|@import|\bfetch\(|XMLHttpRequest`)
	for _, found := range outside.FindAllString(page, -1) {
		if found != "http://www.w3.org/2000/svg" { // a name, which nobody looks up
			t.Errorf("the page has %q", found)
		}
	}
}

func TestThePictureKnowsEveryKindOfFaultAndEveryPhase(t *testing.T) {
	for _, kind := range kinds {
		if !strings.Contains(script, fmt.Sprintf(" %s: () =>", kind)) || !strings.Contains(script, fmt.Sprintf(" %s: '%s'", kind, kindWords[kind])) {
			t.Errorf("the script has no pattern or no words for %q", kind)
		}
	}
	for _, phase := range phases {
		if !strings.Contains(style, fmt.Sprintf("svg .%s {", phase)) || !strings.Contains(script, fmt.Sprintf(" %s: '%s'", phase, phase.words())) {
			t.Errorf("%q has no color or no words", phase)
		}
	}
}

func TestAnEmptyHistoryIsAPageThatSaysSo(t *testing.T) {
	page := rendered(t, History{})
	if !strings.Contains(page, "Nothing was recorded") || strings.Contains(page, `id="stage"`) {
		t.Error("it does not")
	}
}

func TestAHistoryInWhichNobodyLedIsDrawn(t *testing.T) {
	page := rendered(t, History{Lanes: []Lane{{ID: "a"}}})
	if !strings.Contains(page, "Nobody led.") || !strings.Contains(page, `id="stage"`) {
		t.Error("it is not")
	}
}

func TestWithoutABeginningAndAnEndTheFirstAndTheLastTimeCount(t *testing.T) {
	h := powerLoss()
	h.Begin, h.End = time.Time{}, time.Time{}
	n := h.normalized()
	if !n.Begin.Equal(noon) || !n.End.Equal(at(50000)) {
		t.Errorf("from %v to %v", n.Begin, n.End)
	}
}

func TestZonesThatOnlyCandidatesNameComeLast(t *testing.T) {
	h := powerLoss()
	h.Lanes = append(h.Lanes, Lane{ID: "c", Zone: "zc"}, Lane{ID: "d"})
	if got := strings.Join(h.normalized().Zones, ","); got != "za,zb,zc," {
		t.Errorf("the zones are %q", got)
	}
}

func TestAHistoryThatContradictsItselfIsRefusedWithTheReason(t *testing.T) {
	for want, spoil := range map[string]func(*History){
		`zone "za" is listed twice`:                                          func(h *History) { h.Zones[1] = "za" },
		`lane 1 has no ID`:                                                   func(h *History) { h.Lanes[1].ID = "" },
		`two lanes have the ID "a"`:                                          func(h *History) { h.Lanes[1].ID = "a" },
		`names the lane "x", which is not in the history`:                    func(h *History) { h.Terms[0].Lane = "x" },
		`before it begins at 12:00:24.892600`:                                func(h *History) { h.Terms[0].To = at(20000) },
		`has no time`:                                                        func(h *History) { h.Terms[0].From = time.Time{} },
		`before the history begins at 12:00:00`:                              func(h *History) { h.Notes[0].At = at(-1) },
		`after the history ends at 12:01:00`:                                 func(h *History) { h.Notes[0].At = at(60001) },
		`begins before the one from 12:00:00.000000 has ended`:               func(h *History) { h.Terms[0].Lane, h.Terms[0].From = "a", at(9999) },
		`of no known kind`:                                                   func(h *History) { h.Faults[0].Kind = "flood" },
		`names a zone and a lane`:                                            func(h *History) { h.Faults[0].Lane = "a" },
		`names the zone "zz"`:                                                func(h *History) { h.Faults[0].Zone = "zz" },
		`the fault "kill" from 12:00:40.000000 names the lane "x"`:           func(h *History) { h.Faults[2].Lane = "x" },
		`the fault "api" from 12:00:30.000000 ends at 12:00:29.000000`:       func(h *History) { h.Faults[1].To = at(29000) },
		`the end of the lease of "x" names the lane`:                         func(h *History) { h.Expiries[0].Lane = "x" },
		`the note "the watching is almost over" names the lane "x"`:          func(h *History) { h.Notes[0].Lane = "x" },
		`the failover to "x" names the lane "x"`:                             func(h *History) { h.Failovers[0].Lane = "x" },
		`the failover to "b" has no phases`:                                  func(h *History) { h.Failovers[0].Phases = nil },
		`the phase "lunch" of the failover to "b" is not known`:              func(h *History) { h.Failovers[0].Phases[0].Name = "lunch" },
		`the phase "silence" of the failover to "b" has no end`:              func(h *History) { h.Failovers[0].Phases[0].To = time.Time{} },
		`before the phase "silence" ends at 12:00:24.887000`:                 func(h *History) { h.Failovers[0].Phases[1].From = at(24886) },
		`the phase "acquire" of the failover to "b" ends at 12:00:24.887000`: func(h *History) { h.Failovers[0].Phases[2].To = at(24887) },
	} {
		h := powerLoss()
		spoil(&h)
		var text bytes.Buffer
		err := Render(&text, h)
		if !errors.Is(err, ErrHistory) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if text.Len() > 0 {
			t.Errorf("%q: %d bytes are written all the same", want, text.Len())
		}
	}
}

func TestLengthsAreAsExactAsTheyNeedToBe(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0.005 s":         5 * time.Millisecond,
		"59.233 s":        59233 * time.Millisecond,
		"1 min 01.500 s":  61500 * time.Millisecond,
		"2 h 03 min 04 s": 2*time.Hour + 3*time.Minute + 4*time.Second,
		"3 d 04 h 05 min": 76*time.Hour + 5*time.Minute,
	} {
		if got := length(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
