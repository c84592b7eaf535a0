// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

func TestARunIsDoneAgainAsItsLineTells(t *testing.T) {
	all, _, err := choose(nil, testbed.Namespaces)
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		first := newPlan(7, i, all)
		for _, line := range linesOf(first) {
			p, err := again(line.result)
			if err != nil {
				t.Fatal(err)
			}
			if _, mixed := line.Groups[onMixed]; !p.Again || p.timing() != line.Timing || p.name() != line.Faults || p.Seed != line.Seed || p.Index != line.Run ||
				(p.Peer != "") != mixed || (line.drawn && p.text() != first.text()) {
				t.Errorf("run %d of seed %d, %s with %s, is done again as %s", line.Run, line.Seed, line.Faults, line.Timing, p.text())
			}
		}
	}
	if _, err := again(result{Faults: "leader-killed", Timing: "1s/1s/1s"}); err == nil {
		t.Error("a timing that no run has was taken")
	}
}

// written is a ledger's line. It was drawn if the plan of today says all that it says.
type written struct {
	result
	drawn bool
}

// linesOf are lines about the run of a plan: as it is drawn today, and as if it had been
// drawn with other timings and without client-go.
func linesOf(p plan) []written {
	drawn := result{Seed: p.Seed, Run: p.Index, Faults: p.name(), Timing: p.timing()}
	if p.Peer != "" {
		drawn.Groups = map[string]record{onMixed: {}}
	}
	all := []written{{drawn, true}}
	for _, timing := range []string{timingName(timings[0]), timingName(timings[0]) + "+" + timingName(twice)} {
		if timing != p.timing() {
			other := drawn
			other.Timing, other.Groups = timing, nil
			all = append(all, written{other, false})
		}
	}
	return all
}

// As before: drawing mixed timings changes nothing else.
func TestARunWithOneTimingIsWhatItWas(t *testing.T) {
	r := result{Seed: 1795277215, Run: 114, Faults: "requests-rejected+configmap-garbled", Timing: "4s/2.5s/500ms"}
	p, err := again(r)
	if err != nil {
		t.Fatal(err)
	}
	if nameOf(p.Faults) != "configmap-garbled+requests-rejected" || p.Apart.Round(10*time.Millisecond) != 740*time.Millisecond {
		t.Errorf("it is %s", p.text())
	}
}

func TestAFailureIsOpenUntilItHasPassed(t *testing.T) {
	line := func(run int, v verdict, again bool) result {
		return result{Seed: 7, Run: run, Faults: "leader-killed", Verdict: v, Again: again}
	}
	for name, c := range map[string]struct {
		all  []result
		want []int
	}{
		"none failed":             {[]result{line(0, passed, false), line(1, void, false)}, nil},
		"one did":                 {[]result{line(0, passed, false), line(1, failed, false)}, []int{1}},
		"and has passed since":    {[]result{line(1, failed, false), line(1, passed, true)}, nil},
		"and failed again":        {[]result{line(1, failed, false), line(1, failed, true)}, []int{1}},
		"and was void since":      {[]result{line(1, failed, false), line(1, void, true)}, []int{1}},
		"passed, and then failed": {[]result{line(1, failed, false), line(1, passed, true), line(1, failed, true)}, []int{1}},
		"another seed passed":     {[]result{line(1, failed, false), {Seed: 8, Run: 1, Faults: "leader-killed", Verdict: passed}}, []int{1}},
	} {
		var got []int
		for _, r := range failures(c.all) {
			got = append(got, r.Run)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: open are %v, want %v", name, got, c.want)
		}
	}
	if seed, next := resume([]result{{Seed: 7, Run: 3}, {Seed: 5, Run: 9, Again: true}}, 0); seed != 7 || next != 4 {
		t.Errorf("after a run was done again it goes on with run %d of seed %d", next, seed)
	}
}

// The timings that a run plans for its candidates.
func TestCandidatesHaveTimingsOfTheirOwn(t *testing.T) {
	all := rounds(t)
	mixed, rolled, peers, n := 0, 0, 0, 0
	for i := range 4 * len(all) {
		p := newPlan(11, i, all)
		n++
		if p.Peer != "" {
			peers++
		}
		if len(p.Mix) == 0 {
			if p.timingOf(onLease, "za", 0) != p.Timing || p.timingOf(clientGo, "zb", 3) != p.Timing {
				t.Fatalf("run %d has one timing, and its candidates another", i)
			}
			continue
		}
		mixed++
		if slices.Equal(p.Mix, rollouts) {
			rolled++
		}
		for _, zone := range zones {
			if p.timingOf(onLease, zone, 0) == p.timingOf(onLease, zone, 1) {
				t.Fatalf("run %d: who is started again in %s has the timing that it had", i, zone)
			}
		}
	}
	if mixed < n/3 || rolled < n/100 || peers < n/6 {
		t.Errorf("of %d runs %d have two timings, %d those of rollouts, and %d a candidate of client-go's", n, mixed, rolled, peers)
	}
	for _, timing := range append([]election.Timing{twice}, rollouts...) {
		if err := timing.WithDefaults().Validate(); err != nil {
			t.Error(err)
		}
	}
}

// A bound follows the timing of every candidate that may lead: one that waits
// for another's lease has its own silence and its own pauses.
func TestBoundsFollowEachCandidatesTiming(t *testing.T) {
	c := under(t, "leader-killed", "", 0, 60, 60)
	c.plan.Mix = rollouts
	both := c.between(10, 50)
	for _, timing := range rollouts {
		one := c
		one.plan.Mix, one.plan.Timing = nil, timing
		if alone := one.between(10, 50); both < alone {
			t.Errorf("with two timings %v is promised, and with %s alone %v", both, timingName(timing), alone)
		}
	}
	// A candidate with the short timing that follows another does not need as long
	// either.
	c.timings = map[string]election.Timing{"a": rollouts[0], "b": rollouts[0], "c": rollouts[1]}
	short := gap{from: at(10), to: at(50), by: []string{"a", "b"}}
	if got, want := c.limit(short), takeover(rollouts[0], 0).gap-hang; !near(got, want) {
		t.Errorf("among two of 15s %v is promised, want %v", got, want)
	}
	short.by = append(short.by, "c")
	if got := c.limit(short); !near(got, both) {
		t.Errorf("with one of 30s between them %v is promised, want %v", got, both)
	}
	if most := 45 * time.Second; both > most {
		t.Errorf("promised is %v, more than %v", both, most)
	}
	// What a term survives depends on its leader: at worst it is the one that
	// survives less.
	c = under(t, "etcd-frozen", "", 0, 18, 20)
	c.plan.Mix = rollouts
	if got, least := c.between(10, 19), outage(rollouts[0], 8*time.Second).limit(); got < least {
		t.Errorf("an outage of 8s is promised %v, which %s does not survive: want %v", got, timingName(rollouts[0]), least)
	}
}

// Nothing is promised for client-go, not even for a candidate of it among
// zonelect's.
func TestAnOverlapIsThatOfWhoWorksOn(t *testing.T) {
	for name, c := range map[string]struct {
		peer   string
		hands  bool
		theirs bool
	}{
		"zonelect works on beside zonelect":                    {"c", false, false},
		"zonelect works on beside client-go":                   {"b", false, false},
		"client-go works on beside zonelect":                   {"a", false, true},
		"client-go takes what a hand emptied":                  {"b", true, true},
		"zonelect works on beside zonelect, and a hand was in": {"c", true, false},
	} {
		for way, spoil := range map[string]func(*story){
			"in the register": func(s *story) { s.write("a", 10, 5, at(11.5), "") },
			"by their works":  func(s *story) { s.Terms[0].End = at(8.5) },
		} {
			s := newStory()
			s.Peers, s.Hands = map[string]bool{c.peer: true}, c.hands
			spoil(s)
			want := findings{Overlaps: 1}
			if c.theirs {
				want = findings{Theirs: 1}
			}
			if f := judge(s.evidence); f.Overlaps != want.Overlaps || f.Theirs != want.Theirs {
				t.Errorf("%s, %s: found %+v", name, way, f)
			}
		}
	}
}

func TestOfAMixedGroupOnlySafetyIsJudged(t *testing.T) {
	s := newStage(nil, plan{Faults: rounds(t, "follower-killed")[0], Timing: timings[0], Peer: "zb"})
	if s.groups[0].name != onMixed || s.groups[0].kindIn("zb") == s.groups[0].kindIn("za") {
		t.Fatalf("the group is %+v", s.groups[0])
	}
	run := func(spoil func(*story)) result {
		all := map[string]evidence{}
		for _, g := range s.groups {
			one := newStory()
			one.Bites = []bite{{Fault: "follower-killed", Began: at(9), Bit: at(9)}}
			one.Fault = at(9)
			if g.name == onMixed {
				one.Bites[0], one.Fault = bite{Fault: "follower-killed", Began: at(5), Bit: at(5)}, at(5)
				spoil(one)
			}
			all[g.name] = one.evidence
		}
		r := result{}
		s.judge(&r, all, nil, nil)
		return r
	}
	if r := run(func(*story) {}); r.Verdict != passed {
		t.Errorf("a gap and a change: %s: %s", r.Verdict, r.Reason)
	}
	for name, spoil := range map[string]func(*story){
		"an overlap": func(s *story) { s.Terms[0].End = at(8.5) },
		"a lost":     func(s *story) { s.report("b", 20, 4, at(11.5), "999", "") },
		"silence":    func(s *story) { s.Healed = at(11.5) },
	} {
		if r := run(spoil); r.Verdict != failed {
			t.Errorf("%s: %s", name, r.Verdict)
		}
	}
}
