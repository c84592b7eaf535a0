// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/history"
)

// newRoutedStory is a story with a Service, whose second leader goes on until 30.
func newRoutedStory() *story {
	s := newStory()
	s.Over, s.Ended, s.Terms[1].End = at(30), true, at(30.1)
	for i := 4; i <= 22; i++ {
		s.write("b", 20, i, at(float64(8+i)), "")
	}
	s.say("b", events.Event{Event: "stopping", Time: at(30.05)})
	s.say("b", events.Event{Event: "released", Time: at(30.1)})
	s.Timings = map[string]election.Timing{"a": timings[0], "b": timings[0]}
	s.Routed = &routed{
		Addresses: map[string]string{"a": "1", "b": "2"},
		Seen: history.Pointings{
			{Version: 1, Seen: at(0.1), Token: 10, Addresses: []string{"1"}},
			{Version: 2, Seen: at(8.2), Token: 20, Addresses: []string{"2"}},
			{Version: 3, Seen: at(30.1), Token: 20},
		},
	}
	return s
}

func (s *story) points(version uint64, seen time.Time, token uint64, to ...string) {
	s.Routed.Seen = append(s.Routed.Seen, history.Pointing{Version: version, Seen: seen, Token: token, Addresses: to})
}

func TestTheJudgeSeesWhereAServiceMustNotPoint(t *testing.T) {
	for name, c := range map[string]struct {
		spoil          func(*story)
		unsafe, astray int
	}{
		"all is well":                          {func(*story) {}, 0, 0},
		"two addresses":                        {func(s *story) { s.Routed.Seen[1].Addresses = []string{"2", "1"} }, 1, 0},
		"a former leader wrote after the next": {func(s *story) { s.points(4, at(30.2), 10) }, 1, 0},
		"another than the term's leader":       {func(s *story) { s.Routed.Seen[0].Addresses = []string{"2"} }, 1, 0},
		"a leader is never pointed to":         {func(s *story) { s.Routed.Seen = append(s.Routed.Seen[:1], s.Routed.Seen[2]) }, 0, 3},
		"a leader is pointed to too late":      {func(s *story) { s.Routed.Seen[1].Seen = at(17.2) }, 0, 1},
		"a leader is pointed to in time":       {func(s *story) { s.Routed.Seen[1].Seen = at(16.8) }, 0, 0},
		"the API did not answer it": {func(s *story) {
			s.Routed.Seen[1].Seen = at(17.2)
			s.Printed["b"] = slices.DeleteFunc(s.Printed["b"], func(e events.Event) bool { return e.Sequence == 5 })
		}, 0, 0},
		"a leader's address is taken out": {func(s *story) { s.Routed.Seen[2].Seen = at(19.5) }, 0, 3},
		"it points elsewhere at the end, where no leader writes": {func(s *story) {
			s.Printed["b"], s.Register = s.Printed["b"][:2], s.Register[:5]
			s.Routed.Seen = append(s.Routed.Seen[:1], s.Routed.Seen[2])
		}, 0, 1},
		"it points to a dead one at the end": {func(s *story) { s.Routed.Seen = s.Routed.Seen[:2] }, 0, 1},
		"the API did not serve it at the end": {func(s *story) {
			s.Routed.Seen = s.Routed.Seen[:2]
			s.Printed["b"][len(s.Printed["b"])-1].Time = at(31)
		}, 0, 0},
		"some of them were not told to end": {func(s *story) { s.Routed.Seen, s.Ended = s.Routed.Seen[:2], false }, 0, 0},
	} {
		s := newRoutedStory()
		c.spoil(s)
		f := judge(s.evidence)
		if f.Service.Unsafe != c.unsafe || f.Service.Astray != c.astray || f.Overlaps+f.Lost > 0 || len(f.Notes) != c.unsafe+c.astray {
			t.Errorf("%s: found %+v, %q", name, *f.Service, f.Notes)
		}
	}
}

func TestHowSoonAServicePointsIsMeasured(t *testing.T) {
	f := judge(newRoutedStory().evidence)
	if f.Service.Terms != 2 || f.Service.Slowest.Duration != 200*time.Millisecond || f.Service.Versions != 3 {
		t.Errorf("%+v", *f.Service)
	}
	s := newRoutedStory()
	s.Routed.Unread = true
	if f := judge(s.evidence); f.Service != nil {
		t.Errorf("of what was not read it found %+v", *f.Service)
	}
}

func TestAVoidRunDoesNotExcuseAnUnsafeService(t *testing.T) {
	for name, c := range map[string]struct {
		found       routeFindings
		ran, voided int
	}{
		"nothing":               {routeFindings{}, 0, 0},
		"it must not be":        {routeFindings{Unsafe: 1}, 1, 1},
		"it points too late":    {routeFindings{Astray: 1}, 1, 0},
		"it does both":          {routeFindings{Unsafe: 1, Astray: 1}, 2, 1},
		"it points late enough": {routeFindings{Terms: 1}, 0, 0},
	} {
		g := record{findings: findings{Service: &c.found}}
		if ran, voided := g.misled(false), g.misled(true); len(ran) != c.ran || len(voided) != c.voided {
			t.Errorf("%s: %q, and in a void run %q", name, ran, voided)
		}
	}
	if wrong := (record{}).misled(false); len(wrong) > 0 {
		t.Errorf("without a Service: %q", wrong)
	}
}

func TestARunWithAMisledServiceFails(t *testing.T) {
	s := func(s *story) {
		s.Routed = newRoutedStory().Routed
		s.Routed.Seen = append(s.Routed.Seen, history.Pointing{Version: 9, Seen: at(9), Token: 10, Addresses: []string{"1"}})
	}
	for _, voided := range []error{nil, errMissing, brokenBed} {
		if r := judged(t, s, nil, voided); r.Verdict != failed || !strings.Contains(r.Reason, "versions that must not be") {
			t.Errorf("with %v it %s: %s", voided, r.Verdict, r.Reason)
		}
	}
}

func TestEveryMemberMayBeTheFirstToTellAVersion(t *testing.T) {
	r := &routes{seen: map[string]map[uint64]history.Pointing{}, all: make(chan struct{})}
	for _, p := range []history.Pointing{{Version: 2, Seen: at(2)}, {Version: 1, Seen: at(1)}, {Version: 2, Seen: at(3)}} {
		r.note(endpoints("op"), p)
	}
	if all := r.of("op"); len(all) != 2 || all[0].Version != 1 || !all[1].Seen.Equal(at(2)) {
		t.Errorf("%+v", all)
	}
	for range zones {
		if !r.note(lastRoute, history.Pointing{}) {
			t.Error("the last one was not noticed")
		}
	}
	<-r.all
	if err := (*routes)(nil).finish(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

func TestOneRunInThreeHasServices(t *testing.T) {
	n := 0
	for i := range 300 {
		p := newPlan(7, i, rounds(t))
		if p.Service {
			n++
		}
		if p.with(9).Service {
			t.Error("many locks have a Service")
		}
		s := newStage(nil, p)
		for _, g := range s.groups {
			if has := g.service() != ""; has && (!p.Service || g.name == onMixed || g.name == clientGo) {
				t.Errorf("run %d: %s has the Service %s", i, g.name, g.service())
			}
		}
	}
	if n < 70 || n > 130 {
		t.Errorf("%d runs of 300 have Services", n)
	}
}

func TestAServicesFindingsAreTold(t *testing.T) {
	var text strings.Builder
	r := result{Service: true, Verdict: passed, Groups: map[string]record{onLease: {findings: findings{Service: &routeFindings{Versions: 3, Terms: 2}}}}}
	if err := errors.Join(tellServices(&text, nil), tellServices(&text, []result{{}})); err != nil || text.Len() > 0 {
		t.Errorf("%q, %v", text.String(), err)
	}
	if err := tellServices(&text, []result{r, {Service: true, Verdict: void}}); err != nil || !strings.Contains(text.String(), "In 1 runs Services pointed to the leaders of 2 terms, in 3 versions: 0 of them") {
		t.Errorf("%q, %v", text.String(), err)
	}
}
