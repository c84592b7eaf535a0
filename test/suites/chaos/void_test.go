// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zonelect/zonelect/test/kit/events"
)

// judged is the outcome of a run of one fault in which the group on the Lease
// fared like this, and the others' leaders changed in good order.
func judged(t *testing.T, spoil func(*story), left, voided error) result {
	t.Helper()
	s := newStage(nil, plan{Timing: timings[0]})
	all := map[string]evidence{}
	for _, g := range s.groups {
		one := newStory()
		if voided != nil {
			one.Healed = time.Time{} // nobody waited for it
		}
		if g.name == onLease {
			spoil(one)
		}
		all[g.name] = one.evidence
	}
	r := result{}
	s.judge(&r, all, left, voided)
	r.excuse(voided)
	return r
}

var (
	errMissing = fmt.Errorf("leader-killed: %w: nobody leads", errMissed)
	errBroken  = errors.New("heal after leader-killed: the zone does not start")
	errUnended = errors.New("a did not end in good order")
)

func TestAVoidRunExcusesSilenceAndNothingElse(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*story)
		left  error
		// The findings where all went well, where the fault did not bite, and
		// where the testbed broke. Empty is nothing wrong.
		ran, missed, broke string
	}{
		"all is well":                     {spoil: func(*story) {}},
		"silence":                         {spoil: func(s *story) { s.Healed = at(11.5) }, ran: "nobody led"},
		"a write in time that lands late": {spoil: func(s *story) { s.write("a", 10, 5, at(4.9), "timed out") }},
		"an overlap in the register": {
			spoil: func(s *story) { s.write("a", 10, 5, at(11.5), "") },
			ran:   "1 overlaps", missed: "1 overlaps", broke: "1 overlaps",
		},
		"works that ran together": {
			spoil: func(s *story) { s.Terms[0].End = at(8.5) },
			ran:   "1 overlaps", missed: "1 overlaps", broke: "1 overlaps",
		},
		"a lost write": {
			spoil: func(s *story) { s.report("b", 20, 4, at(11.5), "999", "") },
			ran:   "1 lost", missed: "1 lost", broke: "1 lost",
		},
		"a panic": {
			spoil: func(s *story) { s.Exits = map[string]exit{"a": {Panic: "panic: oh", Status: "exit status 2"}} },
			ran:   "1 candidates ended", missed: "1 candidates ended", broke: "1 candidates ended",
		},
		"goroutines that are left": {
			spoil: func(s *story) {
				s.say("a", events.Event{Event: "ended", Goroutines: 30})
				s.say("b", events.Event{Event: "ended", Goroutines: 3})
			},
			ran: "30 goroutines", missed: "30 goroutines", broke: "30 goroutines",
		},
		"a candidate that does not stop": {spoil: func(*story) {}, left: errUnended, ran: "good order", missed: "good order"},
	} {
		for _, x := range []struct {
			voided error
			want   string
		}{{nil, c.ran}, {errMissing, c.missed}, {errBroken, c.broke}} {
			want := failed
			switch {
			case x.want != "":
			case x.voided != nil:
				want = void
			default:
				want = passed
			}
			r := judged(t, c.spoil, c.left, x.voided)
			if r.Verdict != want || !strings.Contains(r.Reason, x.want) {
				t.Errorf("%s, with %v: %s: %s; want %s: %s", name, x.voided, r.Verdict, r.Reason, want, x.want)
			}
			if x.voided != nil && !strings.Contains(r.Reason, x.voided.Error()) {
				t.Errorf("%s: %q does not say why it is void: %v", name, r.Reason, x.voided)
			}
		}
	}
}

// What was printed is judged even if the register could not be read.
func TestARegisterThatCouldNotBeReadHidesNoOverlap(t *testing.T) {
	unread := errors.New("ask etcd: 503")
	r := judged(t, func(s *story) { s.Register, s.Unread, s.Terms[0].End = nil, true, at(8.5) }, nil, unread)
	if r.Verdict != failed || !strings.Contains(r.Reason, "1 overlaps") || strings.Contains(r.Reason, "lost") {
		t.Errorf("%s: %s", r.Verdict, r.Reason)
	}
	if r := judged(t, func(s *story) { s.Register, s.Unread = nil, true }, nil, unread); r.Verdict != void {
		t.Errorf("%s: %s", r.Verdict, r.Reason)
	}
}

func TestWhoEndsOtherwiseThanToldIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		exit  exit
		wrong bool
	}{
		"it runs":                        {exit{Running: true}, false},
		"asked to":                       {exit{Told: true}, false},
		"killed":                         {exit{Killed: true, Status: killedStatus}, false},
		"asked to, as it was killed":     {exit{Told: true, Killed: true}, false},
		"asked to, before it started":    {exit{Told: true, Status: terminatedStatus}, false},
		"asked to, and deaf to it":       {exit{Told: true, Started: true, Status: terminatedStatus}, true},
		"by itself":                      {exit{}, true},
		"killed by nobody":               {exit{Status: killedStatus}, true},
		"asked to, with an error":        {exit{Told: true, Status: "exit status 1"}, true},
		"killed, but it was gone before": {exit{Killed: true}, true},
		"in a panic, and then killed":    {exit{Killed: true, Status: killedStatus, Panic: "panic: oh"}, true},
	} {
		e := newStory().evidence
		e.Exits = map[string]exit{"a": c.exit, "b": {Told: true}}
		if f := judge(e); (f.Exits == 1) != c.wrong || (len(f.Notes) == 1) != c.wrong {
			t.Errorf("%s: found %+v", name, f)
		}
	}
}

func TestAPanicIsFoundInTheLog(t *testing.T) {
	for log, want := range map[string]string{
		"":                                    "",
		"I0102 all is well, no panic: here\n": "",
		"I0102 well\npanic: runtime error: index out of range\n\ngoroutine 1 [running]:\n": "panic: runtime error: index out of range",
		"fatal error: concurrent map writes\n":                                             "fatal error: concurrent map writes",
		"WARNING: DATA RACE\nRead at 0x\n":                                                 "WARNING: DATA RACE",
	} {
		if got := string(panicked.Find([]byte(log))); got != want {
			t.Errorf("in %q it found %q, want %q", log, got, want)
		}
	}
}
