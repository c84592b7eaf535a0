// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/history"
)

func at(seconds float64) time.Time {
	return time.Unix(1000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

// story is a run in which a leads with token 10 until 5, the fault is at 5, and
// b leads with token 20 from 8 on. Each writes once a second.
type story struct{ evidence }

func newStory() *story {
	s := &story{evidence{
		Printed: map[string][]events.Event{}, Fault: at(5), Healed: at(10), Over: at(12),
		Terms: history.History{{Pod: "a", Start: at(0), End: at(5)}, {Pod: "b", Start: at(8), End: at(12)}},
	}}
	s.say("a", events.Event{Event: "leading", Token: 10, Time: at(0)})
	s.say("b", events.Event{Event: "leading", Token: 20, Time: at(8)})
	for i := 1; i <= 4; i++ {
		s.write("a", 10, i, at(float64(i)), "")
	}
	for i := 1; i <= 3; i++ {
		s.write("b", 20, i, at(float64(8+i)), "")
	}
	return s
}

func (s *story) say(who string, e events.Event) {
	e.Identity = who
	s.Printed[who] = append(s.Printed[who], e)
}

// write sends a write that arrives at once. err is the error that the writer
// got.
func (s *story) write(who string, token uint64, sequence int, sent time.Time, err string) {
	version := uint64(100 + len(s.Register))
	s.Register = append(s.Register, history.Revision{Version: version, Token: token, Identity: who, Sequence: sequence})
	s.report(who, token, sequence, sent, fmt.Sprint(version), err)
}

func (s *story) report(who string, token uint64, sequence int, sent time.Time, version, err string) {
	s.say(who, events.Event{
		Event: "wrote", Token: token, Sequence: sequence, Sent: sent, Time: sent.Add(time.Millisecond), Version: version, Error: err,
	})
}

func TestAnAcknowledgedWriteThatIsNotThereIsLost(t *testing.T) {
	for name, spoil := range map[string]func(*story){
		"there is nothing":       func(s *story) { s.report("b", 20, 4, at(11.5), "999", "") },
		"there is another":       func(s *story) { s.report("b", 20, 4, at(11.5), "100", "") },
		"the answer names none":  func(s *story) { s.report("b", 20, 4, at(11.5), "", "") },
		"it was taken out again": func(s *story) { s.Register = s.Register[:len(s.Register)-1] },
	} {
		s := newStory()
		spoil(s)
		if f := judge(s.evidence); f.Overlaps != 0 || f.Lost != 1 {
			t.Errorf("%s: found %+v, want one lost write", name, f)
		}
	}
	s := newStory()
	s.report("b", 20, 4, at(11.5), "", "timed out")
	if f := judge(s.evidence); f.Lost != 0 {
		t.Errorf("a write that failed is not a lost one: %+v", f)
	}
}

func TestAGapIsWhatTheFaultMade(t *testing.T) {
	s := newStory()
	s.Fault = at(9.5) // the long gap was before
	if f := judge(s.evidence); f.Gap != time.Second {
		t.Errorf("found %+v, want a gap of 1s", f)
	}
	s = newStory()
	s.write("b", 20, 4, at(11.9), "refused") // it arrived, but nobody knows
	if f := judge(s.evidence); f.Gap != 5*time.Second {
		t.Errorf("found %+v, want a gap of 5s", f)
	}
}

func TestWhoNeverWritesAgainIsSilent(t *testing.T) {
	s := newStory()
	s.Healed, s.Over = at(11.5), at(31)
	f := judge(s.evidence)
	if want := 20*time.Second - time.Millisecond; !f.Silent || f.Gap != want {
		t.Errorf("found %+v, want silence for %v", f, want)
	}
	if f := judge(evidence{Over: at(1)}); !f.Silent {
		t.Errorf("found %+v where nobody ever wrote", f)
	}
}

func TestAProcessThatStandsStillDoesNothing(t *testing.T) {
	led := func(from, to float64) history.Span { return history.Span{Pod: "a", Start: at(from), End: at(to)} }
	term := history.History{led(0, 10)}
	for name, c := range map[string]struct {
		pauses []pause
		want   history.History
	}{
		"none":               {nil, term},
		"it stops on waking": {[]pause{{at(4), at(9.8)}}, history.History{led(0, 4)}},
		"it works on":        {[]pause{{at(4), at(6)}}, history.History{led(0, 4), led(6.5, 10)}},
		"it never goes on":   {[]pause{{at(4), time.Time{}}}, history.History{led(0, 4)}},
		"before and after":   {[]pause{{at(-2), at(-1)}, {at(11), at(12)}}, term},
		"twice":              {[]pause{{at(1), at(2)}, {at(4), at(9.8)}}, history.History{led(0, 1), led(2.5, 4)}},
	} {
		if got := without(term, c.pauses); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: it led %v, want %v", name, got, c.want)
		}
	}
}
