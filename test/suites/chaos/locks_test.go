// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/history"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

// newLockStory is a story of one of many locks, whose works hardly write.
func newLockStory() *story {
	s := newStory()
	s.Lock, s.Well = "locks-0", at(11)
	s.Timings = map[string]election.Timing{"a": timings[0], "b": timings[0]}
	s.Acked = map[string][]sent{"a": {{at(3.5), at(3.6)}}}
	return s
}

// stops has a leader's work stop, and end its term then.
func (s *story) stops(who string, when time.Time, cause string) {
	s.say(who, events.Event{Event: "stopping", Time: when, Cause: cause})
	for i, term := range s.Terms {
		if term.Pod == who {
			s.Terms[i].End = when
		}
	}
}

const (
	silent  = "leadership lost: no renewal was acknowledged within the RenewDeadline of 2.5s"
	emptied = "leadership lost: the record was emptied by somebody else"
	asked   = "elector stopped: terminated signal received"
)

// A work that writes once in ten seconds says little about when nobody led.
func TestAGapAtOneOfManyLocksIsFromTermToTerm(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*story)
		want  time.Duration
	}{
		"its process was killed":     {func(*story) {}, 3 * time.Second},
		"it stopped in good order":   {func(s *story) { s.stops("a", at(7), asked) }, time.Second},
		"its trust ran out":          {func(s *story) { s.stops("a", at(7), silent) }, 3500 * time.Millisecond},
		"somebody emptied it":        {func(s *story) { s.stops("a", at(7.5), emptied) }, 500 * time.Millisecond},
		"its process was stopped":    {func(s *story) { s.say("a", events.Event{Event: "stopping", Time: at(9), Cause: silent}) }, 3 * time.Second},
		"nobody led since":           {func(s *story) { s.Printed["b"], s.Terms = nil, s.Terms[:1] }, 7 * time.Second},
		"it was over with the fault": {func(s *story) { s.Fault = at(8) }, 0},
	} {
		s := newLockStory()
		c.spoil(s)
		f := judge(s.evidence)
		if f.Gap.Duration != c.want || f.Overlaps != 0 || f.Silent != (name == "nobody led since") {
			t.Errorf("%s: a gap of %v, want %v: %+v", name, f.Gap.Duration, c.want, f)
		}
	}
}

// What a process did of its term after it had been stopped begins no other term.
func TestATermThatGoesOnAfterAPauseIsOne(t *testing.T) {
	s := newLockStory()
	s.Terms = history.History{{Pod: "a", Start: at(0), End: at(5)}, {Pod: "a", Start: at(6), End: at(7)}, {Pod: "b", Start: at(8), End: at(12)}}
	if terms := s.begun(); len(terms) != 2 || !terms[0].to.Equal(at(5)) || terms[1].who != "b" {
		t.Errorf("there are %+v", terms)
	}
}

func TestATermThatIsLostWhileNothingIsWrongIsFalselyLost(t *testing.T) {
	for name, c := range map[string]struct {
		cause    string
		when     float64
		harmless bool
		led      bool // somebody else began to lead before
		unheard  bool // the API answered nothing in the last second
		want     findings
	}{
		"before the fault":              {cause: silent, when: 4, want: findings{Losses: 1, FalseLosses: 1}},
		"without answers":               {cause: silent, when: 4, unheard: true, want: findings{Losses: 1}},
		"emptied, without answers":      {cause: emptied, when: 4, unheard: true, want: findings{Losses: 1, FalseLosses: 1}},
		"under it":                      {cause: silent, when: 7, want: findings{Losses: 1}},
		"under one that harms nobody":   {cause: silent, when: 7, harmless: true, want: findings{Losses: 1, FalseLosses: 1}},
		"before all was well":           {cause: silent, when: 10.5, led: true, want: findings{Losses: 1}},
		"when all was well":             {cause: emptied, when: 11.5, want: findings{Losses: 1, FalseLosses: 1}},
		"without a renewal since then":  {cause: silent, when: 11.5, want: findings{Losses: 1}},
		"after somebody else had begun": {cause: silent, when: 11.5, led: true, want: findings{Losses: 1}},
		"it was asked to end":           {cause: asked, when: 4},
		"when all were being stopped":   {cause: silent, when: 13},
	} {
		s := newLockStory()
		if !c.led {
			s.Printed["b"], s.Terms = nil, s.Terms[:1]
		}
		s.Harmless = c.harmless
		s.Acked = map[string][]sent{"a": {{at(c.when - 2), at(c.when - 0.9)}, {at(c.when - 0.9), at(c.when - 0.8)}}}
		if c.unheard {
			s.Acked["a"] = []sent{{at(c.when - 2), at(c.when - 0.9)}, {at(c.when - 0.9), at(c.when + 0.1)}}
		}
		s.stops("a", at(c.when), c.cause)
		if f := judge(s.evidence); f.Losses != c.want.Losses || f.FalseLosses != c.want.FalseLosses {
			t.Errorf("%s: %d were lost and %d of them falsely, want %d and %d", name, f.Losses, f.FalseLosses, c.want.Losses, c.want.FalseLosses)
		}
	}
}

// lockRun is a run of one fault with three locks, judged.
func lockRun(t *testing.T, spoil func(lock int, s *story)) result {
	t.Helper()
	all, _, err := choose([]string{"leader-killed"}, testbed.Namespaces, 3)
	if err != nil {
		t.Fatal(err)
	}
	stage := newStage(nil, plan{Faults: all[0], Timing: timings[0]}.with(3))
	found := map[string]evidence{}
	for i, lock := range stage.groups[0].parts() {
		s := newLockStory()
		s.Lock, s.Bites = lock, []bite{{Fault: "leader-killed", Began: at(5), Bit: at(5)}}
		s.Exits = map[string]exit{"a": {Killed: true, Status: killedStatus}}
		spoil(i, s)
		found[lock] = s.evidence
	}
	r := result{}
	stage.judge(&r, found, nil, nil)
	return r
}

func TestEachOfManyLocksIsJudged(t *testing.T) {
	for want, spoil := range map[string]func(*story){
		"":                                       func(*story) {},
		"1 overlaps":                             func(s *story) { s.write("a", 10, 5, at(11.5), "") },
		"2 overlaps":                             func(s *story) { s.Terms[0].End = at(8.5); s.Peers = nil },
		"1 lost":                                 func(s *story) { s.report("b", 20, 4, at(11.5), "999", "") },
		"nobody led":                             func(s *story) { s.Terms[1].End = at(11.5) },
		"1 terms ended though nothing was wrong": func(s *story) { s.stops("a", at(4), silent) },
		"1 candidates ended as nobody told them to": func(s *story) { s.Exits["a"] = exit{Panic: "panic: oh"} },
	} {
		hit := func(lock int) bool {
			return lock == 1 || lock == 2 && want == "2 overlaps" || strings.HasPrefix(want, "1 candidates")
		}
		r := lockRun(t, func(lock int, s *story) {
			if hit(lock) {
				spoil(s)
			}
		})
		if (r.Verdict == failed) != (want != "") || !strings.Contains(r.Reason, want) {
			t.Errorf("%s: %s", r.Verdict, r.Reason)
		}
		if notes := r.Groups[onLocks].Notes; strings.Contains(want, "overlaps") && !strings.HasSuffix(notes[0], " of locks-1") {
			t.Errorf("the notes %q do not name the lock", notes)
		}
	}
}

func TestManyLocksHaveTheTimeThatTheirTakeoversTake(t *testing.T) {
	s := map[string]evidence{}
	for i, lock := range []string{"x-0", "x-1", "x-2"} {
		one := newLockStory()
		one.Printed["a"][0].Time = at(float64(i) / 2)
		one.Terms[0].Start = at(float64(i) / 2)
		s[lock] = one.evidence
	}
	batch := batchOf([]string{"x-0", "x-1", "x-2"}, s)
	if batch != time.Second {
		t.Errorf("a batch took %v, want 1s", batch)
	}
	few := under(t, "leader-killed", "", 0, 30, 30)
	many := few
	many.batch = batch
	if got, want := many.between(10, 20), few.between(10, 20)+batch*3/2; !near(got, want) {
		t.Errorf("after a crash %v is promised, want %v", got, want)
	}
	released := gap{from: at(10), to: at(20), released: true}
	if got, want := many.limit(released), few.limit(released)+batch*3/2; !near(got, want) {
		t.Errorf("after a release %v is promised, want %v", got, want)
	}
	edit := under(t, "lease-garbled", "", 0, 30, 30)
	edit.plan.Faults[0].chosen = func(*rand.Rand) pledge { return edited }
	without := edit.between(10, 20)
	edit.batch = batch
	if got, want := edit.between(10, 20), without+detached(timings[0])+batch*3/2; !near(got, want) {
		t.Errorf("where the record names another %v is promised, want %v: its heartbeat goes on at first", got, want)
	}
	rolled := under(t, "candidates-rolled", "", 0, 30, 30)
	before := rolled.between(10, 20)
	rolled.batch = batch
	if got, want := rolled.between(10, 20), before-hang+3*batch; !near(got, want) {
		t.Errorf("in a rolling restart %v is promised, want %v: no write of the work is waited for", got, want)
	}
}

func TestTheLeaderIsWhoLeadsMostLocks(t *testing.T) {
	lead := func(lock string, when float64) events.Event {
		return events.Event{Event: "leading", Lock: lock, Time: at(when)}
	}
	for name, c := range map[string]struct {
		printed map[string][]events.Event
		want    string
	}{
		"one lock": {map[string][]events.Event{"a": {lead("x", 1)}, "b": {lead("x", 2)}}, "b"},
		"most":     {map[string][]events.Event{"a": {lead("x", 1), lead("y", 1)}, "b": {lead("z", 2)}}, "a"},
		"taken":    {map[string][]events.Event{"a": {lead("x", 1), lead("y", 1), lead("z", 1)}, "b": {lead("z", 2), lead("y", 2)}}, "b"},
		"as many":  {map[string][]events.Event{"a": {lead("x", 3)}, "b": {lead("z", 2)}}, "a"},
		"nobody":   {map[string][]events.Event{"a": {{Event: "following", Lock: "x", Time: at(1)}}}, ""},
	} {
		if got := mostLed(c.printed); got != c.want {
			t.Errorf("%s: the leader is %q, want %q", name, got, c.want)
		}
	}
}

func TestWhatAProcessPrintsIsDividedAmongItsLocks(t *testing.T) {
	s := newStage(nil, plan{Timing: timings[0]}.with(2))
	g := s.groups[0]
	parts := g.byPart([]events.Event{{Event: "leading", Lock: "locks-0"}, {Event: "leading", Lock: "locks-1"}, {Event: "stopping", Lock: "locks-0"}, {Event: "ended", Lock: "locks"}})
	if len(parts) != 2 || len(parts["locks-0"]) != 3 || len(parts["locks-1"]) != 2 {
		t.Errorf("it is %v", parts)
	}
	if got := leading(parts["locks-0"]); got["locks-0"] {
		t.Error("who stops leads")
	}
	if got := leading(parts["locks-1"]); !got["locks-1"] {
		t.Error("who leads does not")
	}
	if got, want := g.registers(), []string{"locks-register-0", "locks-register-1"}; !slices.Equal(got, want) {
		t.Errorf("the registers are %v, want %v", got, want)
	}
}

func TestEachModeHasItsFaults(t *testing.T) {
	one, many := namesOf(faultsOf(0)), namesOf(faultsOf(100))
	for _, f := range faults() {
		if slices.Contains(one, f.name) != (f.only != onLocks) || slices.Contains(many, f.name) != (f.only == "" || f.only == onLocks) {
			t.Errorf("%s is for %q", f.name, f.only)
		}
	}
	if _, _, err := choose([]string{"heartbeat-deleted"}, testbed.Namespaces, 0); err == nil {
		t.Error("candidates without heartbeats suffer from heartbeat-deleted")
	}
	all, _, err := choose(nil, testbed.Namespaces, 100)
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		p := newPlan(3, i, all).with(100)
		r := result{Seed: 3, Run: i, Faults: p.name(), Timing: p.timing(), Locks: p.Locks}
		same, err := again(r)
		if err != nil || same.text() != p.text() || same.Locks != 100 || p.Peer != "" || !p.survivesALostRequest() {
			t.Fatalf("run %d, %s, is done again as %s, with %v", i, p.text(), same.text(), err)
		}
	}
}

// Somebody who shortens a live lease may cause two leaders (S3), which proves nothing.
func TestNoEditOfAnAttachmentShortensALease(t *testing.T) {
	for i, edit := range attachmentEdits {
		words := []string{"heart", "uid", "nonce.1", "4"}
		text := edit(slices.Clone(words))
		if text == strings.Join(words, " ") {
			t.Errorf("edit %d changes nothing", i)
		}
		if got := strings.Split(text, " "); len(got) == 4 && got[3] != "4" {
			t.Errorf("edit %d makes it %q", i, text)
		}
	}
	for i, edit := range heartbeatEdits {
		l := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: new(int32(4))}}
		if edit(l); *l.Spec.LeaseDurationSeconds != 4 {
			t.Errorf("edit %d makes it a lease of %d", i, *l.Spec.LeaseDurationSeconds)
		}
	}
}

func TestAFaultHitsOneLockOrAFewOrAll(t *testing.T) {
	s := newStage(nil, plan{Timing: timings[0]}.with(100))
	seen := map[int]bool{}
	for i := range 40 {
		some := s.groups[0].some(plan{Seed: uint64(i)}.dice("some"))
		if slices.Sort(some); len(slices.Compact(some)) != len(some) {
			t.Fatalf("%v are hit", some)
		}
		seen[len(some)] = true
	}
	if len(seen) != 3 || !seen[1] || !seen[100] {
		t.Errorf("of 100 locks are hit %v", seen)
	}
	alone := newStage(nil, plan{Timing: timings[0]})
	if got := alone.groups[0].some(nil); !slices.Equal(got, []string{onLease}) {
		t.Errorf("of a group with one lock are hit %v", got)
	}
}

func TestOnlyFaultsUnderWhichTermsGoOnAreHarmless(t *testing.T) {
	safe := func(timing election.Timing, name string, bites ...bite) bool {
		all, _, err := choose([]string{name}, testbed.Namespaces, 100)
		if err != nil {
			t.Fatal(err)
		}
		return harmless(plan{Faults: all[0], Timing: timing}, bites)
	}
	for name, want := range map[string]bool{
		"follower-killed": true, "clock-stepped": true, "follower-zone-dark": true, "leader-killed": false, "heartbeat-deleted": false,
		"lease-deleted": false, "etcd-frozen": false, "rights-revoked": false, "network-bad": false, "candidates-rolled": false,
	} {
		if got := safe(timings[0], name, bite{}); got != want {
			t.Errorf("%s is harmless: %t, want %t", name, got, want)
		}
	}
	for name, is := range map[string]bool{
		"a timing that survives no lost request": safe(timings[2], "follower-killed", bite{}),
		"an election of etcd's":                  safe(timings[0], "follower-zone-dark", bite{Elects: true}),
		"a run without its fault":                safe(timings[0], "follower-killed"),
		"a pair":                                 safe(timings[0], "follower-killed+clock-stepped", bite{}, bite{}),
	} {
		if is {
			t.Errorf("%s is harmless", name)
		}
	}
}

func TestTheSummaryTellsFalseLosses(t *testing.T) {
	line := func(f findings) result {
		return result{Locks: 100, Faults: "heartbeat-deleted", Verdict: passed, Groups: map[string]record{onLocks: {findings: f}}}
	}
	all := []result{line(findings{Losses: 100}), line(findings{Losses: 7, FalseLosses: 3}), {Locks: 100, Verdict: void}}
	var text bytes.Buffer
	if err := tellLosses(&text, all); err != nil || !strings.Contains(text.String(), "100 locks in each process 107 terms were lost, 3 of them though nothing was wrong, in 1 runs") {
		t.Errorf("with %v it says %q", err, &text)
	}
	if s := summarize(all); len(s.Singles) != 1 || s.Singles[0].Runs != 2 {
		t.Errorf("the summary is %+v", s)
	}
	if p := newPage(all); p.Locks != 100 || len(p.Grid) != len(faultsOf(100)) {
		t.Errorf("the page is of %d locks, and has %d lines", p.Locks, len(p.Grid))
	} else if err := reportPage.Execute(&text, p); err != nil || !strings.Contains(text.String(), "campaigns for 100 locks") {
		t.Errorf("the page says, with %v: %s", err, &text)
	}
	if text.Reset(); tellLosses(&text, sample) != nil || text.Len() > 0 {
		t.Errorf("of single locks it says %q", &text)
	}
}
