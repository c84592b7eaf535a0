// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package demo judges whether the candidates of a demonstration kept what zonelect promises.
//
// It is pure: [Seen] is what was seen of the candidates, and [Seen.Judge] compares it with the promises.
package demo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zonelect/zonelect/election/timing"
)

// Kind is what an event is about.
type Kind string

// The kinds of events.
const (
	Following Kind = "following" // another candidate is known to lead
	Leading   Kind = "leading"   // the work of a term begins
	Stopped   Kind = "stopped"   // the work has returned
	Ended     Kind = "ended"     // the candidate takes part no longer
)

// Event is something that happened to a candidate. They are in the order of their times.
type Event struct {
	Time      time.Time
	Candidate string // its identity
	Kind      Kind
	Leader    string // the identity that it follows
	Token     uint64
}

// Term is a time in which a candidate worked as the leader.
type Term struct {
	Candidate string
	Token     uint64
	From      time.Time
	To        time.Time // zero if the work goes on
}

// Terms are the terms in events, by when they began.
func Terms(events []Event) []Term {
	var all []Term
	running := map[string]int{} // by candidate, in all
	for _, e := range events {
		switch i, runs := running[e.Candidate]; {
		case e.Kind == Leading:
			running[e.Candidate] = len(all)
			all = append(all, Term{Candidate: e.Candidate, Token: e.Token, From: e.Time})
		case runs && e.Kind == Stopped:
			all[i].To = e.Time
			delete(running, e.Candidate)
		}
	}
	return all
}

// Fault is something that was done to a leader.
type Fault struct {
	Leader string // whom it hit
	At     time.Time
	// LeaseEnds is when the lease of the last renewal ends that the API server has. It is zero for a
	// leader that released the lock, and if it is not known; Unknown says why.
	LeaseEnds time.Time
	Unknown   string
}

// Seen is what was seen of a demonstration.
type Seen struct {
	Timing  timing.Timing
	Slowest time.Duration // of the requests that were measured before
	Events  []Event

	Stop   Fault     // it was told to stop
	Cut    Fault     // its connection was cut
	Healed time.Time // when the connection was restored

	// Left names what was left in the cluster. Unswept is why that is not known.
	Left    []string
	Unswept string
}

// Candidates is how many there are.
const Candidates = 3

// later is the time that requests are expected not to exceed, n times, and that of two candidates that go first and do
// not come.
func (s Seen) later(n int) time.Duration {
	return time.Duration(n)*max(50*time.Millisecond, s.Slowest) + (Candidates-1)*s.Timing.RenewInterval/10
}

// around returns the term in which a fault found a leader, and the first term of another after it. A term that is not
// there is zero.
func (s Seen) around(f Fault) (hit, next Term) {
	for _, t := range Terms(s.Events) {
		switch {
		case t.Candidate == f.Leader && !t.From.After(f.At) && (t.To.IsZero() || !t.To.Before(f.At)):
			hit = t
		case t.Candidate != f.Leader && !t.From.Before(f.At) && next.From.IsZero():
			next = t
		}
	}
	return hit, next
}

// Result is whether a promise was kept.
type Result string

// The results.
const (
	Kept    Result = "kept"
	Broken  Result = "broken"
	Unknown Result = "unknown" // it could not be judged
)

// Promise is what zonelect promises, and whether it was kept.
type Promise struct {
	Name   string
	Result Result
	Text   string
	Link   string // where the promise is explained
}

// Page is where the demonstration is explained.
const Page = "https://github.com/zonelect/zonelect/blob/main/docs/demo.md"

// Judge returns all promises.
func (s Seen) Judge() []Promise {
	var all []Promise
	for _, p := range []struct {
		name  string
		judge func() Promise
	}{
		{"stop", s.stopped}, {"trust", s.stoppedInTime}, {"cut", s.cutOff}, {"heal", s.healed},
		{"one-leader", s.oneLeader}, {"tokens", s.tokens}, {"nothing-left", s.nothingLeft},
	} {
		judged := p.judge()
		judged.Name, judged.Link = p.name, Page+"#"+p.name
		all = append(all, judged)
	}
	return all
}

func judged(r Result, format string, args ...any) Promise {
	return Promise{Result: r, Text: fmt.Sprintf(format, args...)}
}

// within judges a figure, which has its place in the format.
func within(took, allowed time.Duration, format string) Promise {
	p := judged(Kept, format+" (at most %s)", Text(took), Text(allowed))
	if took > allowed {
		p.Result = Broken
	}
	return p
}

// Text is a duration for people.
func Text(d time.Duration) string { return d.Round(max(d/1000, time.Millisecond/10)).String() }

// spoilt is the result of a fault after which something cannot be judged, or did not happen.
func (f Fault) spoilt(hit, next Term) (Promise, bool) {
	switch {
	case f.At.IsZero():
		return judged(Unknown, "it did not come to that"), true
	case hit.From.IsZero():
		return judged(Unknown, "%s was not leading", f.Leader), true
	case hit.To.IsZero():
		return judged(Broken, "the work of %s did not stop", f.Leader), true
	case next.From.IsZero():
		return judged(Broken, "nobody led after %s", f.Leader), true
	case f.Unknown != "":
		return judged(Unknown, "when the lease ended is not known: %s", f.Unknown), true
	}
	return Promise{}, false
}

// stopped: a leader that is told to stop hands over.
func (s Seen) stopped() Promise {
	hit, next := s.around(s.Stop)
	if p, is := s.Stop.spoilt(hit, next); is {
		return p
	}
	if took := next.From.Sub(hit.To); took >= 0 {
		return within(took, s.later(5), "the next led %s after the last one had stopped")
	}
	return judged(Broken, "the next led before the last one had stopped")
}

// cutOff: after a cut, the next leads when the lease ends, and not before.
func (s Seen) cutOff() Promise {
	hit, next := s.around(s.Cut)
	if p, is := s.Cut.spoilt(hit, next); is {
		return p
	}
	took := next.From.Sub(s.Cut.LeaseEnds)
	if took < 0 {
		return judged(Broken, "the next led %s before the lease ended", Text(-took))
	}
	drift := time.Duration(float64(s.Timing.LeaseDuration) * s.Timing.MaxClockDrift)
	return within(took, s.later(4)+drift, "the next led %s after the lease ended")
}

// stoppedInTime: a leader that hears nothing stops its work before others may lead.
func (s Seen) stoppedInTime() Promise {
	hit, next := s.around(s.Cut)
	if p, is := s.Cut.spoilt(hit, cmp.Or(next, hit)); is {
		return p
	}
	renewed := s.Cut.LeaseEnds.Add(-s.Timing.LeaseDuration)
	return within(hit.To.Sub(renewed), s.Timing.RenewDeadline+s.Timing.StopGrace, "the leader stopped its work %s after its last renewal")
}

// healed: a former leader whose connection is back follows.
func (s Seen) healed() Promise {
	_, next := s.around(s.Cut)
	if next.From.IsZero() || s.Healed.IsZero() {
		return judged(Unknown, "the connection was not restored")
	}
	for _, e := range s.Events {
		switch {
		case e.Candidate != s.Cut.Leader || e.Time.Before(s.Healed):
		case e.Kind == Leading:
			return judged(Broken, "the former leader led again, beside %s", next.Candidate)
		case e.Kind == Following && e.Leader == next.Candidate:
			return within(e.Time.Sub(s.Healed), s.later(12)+s.Timing.AttemptTimeout+2*s.Timing.RenewInterval, "the former leader followed %s after its connection was back")
		}
	}
	return judged(Broken, "the former leader did not follow")
}

// oneLeader: no two worked at the same time.
func (s Seen) oneLeader() Promise {
	all := Terms(s.Events)
	if len(all) == 0 {
		return judged(Unknown, "nobody led")
	}
	for i, t := range all {
		for _, other := range all[i+1:] {
			if t.To.IsZero() || other.From.Before(t.To) {
				return judged(Broken, "two worked at the same time: %s and %s", t.Candidate, other.Candidate)
			}
		}
	}
	return judged(Kept, "no two worked at the same time in %d terms", len(all))
}

// tokens: each term has a larger fencing token than all before it.
func (s Seen) tokens() Promise {
	all := Terms(s.Events)
	if len(all) == 0 {
		return judged(Unknown, "nobody led")
	}
	if !slices.IsSortedFunc(all, func(a, b Term) int { return cmp.Or(cmp.Compare(a.Token, b.Token), -1) }) {
		return judged(Broken, "the token did not grow with each term")
	}
	return judged(Kept, "the fencing token grew with each term, from %d to %d", all[0].Token, all[len(all)-1].Token)
}

// nothingLeft: what the demonstration created is gone.
func (s Seen) nothingLeft() Promise {
	switch {
	case s.Unswept != "":
		return judged(Unknown, "what is left is not known: %s", s.Unswept)
	case len(s.Left) > 0:
		return judged(Broken, "left behind: %s", strings.Join(s.Left, ", "))
	}
	return judged(Kept, "all Leases are removed")
}
