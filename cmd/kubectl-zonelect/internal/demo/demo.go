// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package demo judges whether the candidates of a demonstration kept what zonelect promises.
//
// It is pure: [Seen] is what was seen of the candidates, and [Seen.Judge] compares it with the promises.
package demo

import (
	"cmp"
	"slices"
	"time"

	"github.com/zonelect/zonelect/election/timing"
)

// Kind is what an event is about.
type Kind string

// The kinds of events, in the order in which a term and its candidate see them.
const (
	Following Kind = "following" // another candidate is known to lead
	Leading   Kind = "leading"   // the work of a term begins
	Stopping  Kind = "stopping"  // the work's context has ended
	Stopped   Kind = "stopped"   // the work has returned
	Ended     Kind = "ended"     // the candidate takes part no longer
	Killed    Kind = "killed"    // its process was killed; only its parent can say so
)

// Event is something that happened to a candidate. All times are of one clock, because all candidates
// run on one machine.
type Event struct {
	Time      time.Time `json:"time"`
	Candidate string    `json:"candidate"` // its identity
	Kind      Kind      `json:"event"`
	Leader    string    `json:"leader,omitempty"` // the identity that it follows
	Token     uint64    `json:"token,omitempty"`
	Cause     string    `json:"cause,omitempty"`
}

// Term is a time in which a candidate worked as the leader.
type Term struct {
	Candidate string    `json:"candidate"`
	Token     uint64    `json:"token"`
	From      time.Time `json:"from"`
	To        time.Time `json:"to,omitzero"` // zero if the work goes on
	Cause     string    `json:"cause"`       // why it began
	Ended     string    `json:"ended,omitempty"`
}

// Terms are the terms in events, by when they began.
func Terms(events []Event) []Term {
	var all []Term
	running := map[string]int{} // by candidate, in all
	for _, e := range inOrder(events) {
		i, runs := running[e.Candidate]
		switch {
		case e.Kind == Leading:
			running[e.Candidate] = len(all)
			all = append(all, Term{Candidate: e.Candidate, Token: e.Token, From: e.Time, Cause: e.Cause})
		case !runs:
		case e.Kind == Stopping:
			all[i].Ended = e.Cause
		case e.Kind == Stopped || e.Kind == Killed || e.Kind == Ended:
			all[i].To = e.Time
			if e.Kind == Killed {
				all[i].Ended = string(Killed)
			}
			delete(running, e.Candidate)
		}
	}
	return all
}

// inOrder returns events by their times.
func inOrder(events []Event) []Event {
	return slices.SortedStableFunc(slices.Values(events), func(a, b Event) int { return a.Time.Compare(b.Time) })
}

// Fault is something that was done to a leader.
type Fault struct {
	Leader string    `json:"leader"` // whom it hit
	At     time.Time `json:"at"`
	// LeaseEnds is when the lease of the last renewal ends that the API server has. It is zero for a
	// leader that released the lock, and if it is not known.
	LeaseEnds time.Time `json:"leaseEnds,omitzero"`
	// Unknown is why LeaseEnds is not known.
	Unknown string `json:"-"`
}

// Seen is what was seen of a demonstration.
type Seen struct {
	Timing timing.Timing
	// Slowest is how long the slowest of the requests took that were measured before.
	Slowest time.Duration
	Events  []Event

	Stop Fault // SIGTERM
	Kill Fault // SIGKILL
	Cut  Fault // the connection
	// Healed is when the connection was restored.
	Healed time.Time

	// Left names what was left in the cluster and on this machine. Unswept is why that is not known.
	Left    []string
	Unswept string
}

// RoundTrip is the time that requests are expected not to exceed: 50 ms, or the slowest that was
// measured.
func (s Seen) RoundTrip() time.Duration { return max(50*time.Millisecond, s.Slowest) }

// bounds are how long each takeover may take, at that round trip.
type bounds struct {
	stop  time.Duration // from the end of the work
	lease time.Duration // from the end of the lease
	heal  time.Duration // from when the connection was restored
}

// bounds allows the few requests of a takeover, and that two candidates that go first do not come: they
// may have been killed, and the others count them among them for some minutes. A candidate whose
// connection was cut may wait for a request that hangs, and for the pauses after it.
func (s Seen) bounds() bounds {
	t := s.Timing.WithDefaults()
	trip, later := s.RoundTrip(), (Candidates-1)*t.RenewInterval/10
	return bounds{
		stop:  5*trip + later,
		lease: 4*trip + later + time.Duration(float64(t.LeaseDuration)*t.MaxClockDrift),
		heal:  12*trip + t.AttemptTimeout + 2*t.RenewInterval,
	}
}

// Candidates is how many there are.
const Candidates = 3

// next is the first term that began after a fault, of another candidate than the one that a fault hit.
func (s Seen) next(f Fault) (Term, bool) {
	all := Terms(s.Events)
	i := slices.IndexFunc(all, func(t Term) bool { return !t.From.Before(f.At) && t.Candidate != f.Leader })
	if i < 0 {
		return Term{}, false
	}
	return all[i], true
}

// hit is the term in which a fault found a leader.
func (s Seen) hit(f Fault) (Term, bool) {
	all := Terms(s.Events)
	i := slices.IndexFunc(all, func(t Term) bool {
		return t.Candidate == f.Leader && !t.From.After(f.At) && (t.To.IsZero() || !t.To.Before(f.At))
	})
	if i < 0 {
		return Term{}, false
	}
	return all[i], true
}

// last is the last time of all.
func (s Seen) last() time.Time {
	all := []time.Time{s.Stop.At, s.Kill.At, s.Kill.LeaseEnds, s.Cut.At, s.Cut.LeaseEnds, s.Healed}
	for _, e := range s.Events {
		all = append(all, e.Time)
	}
	return slices.MaxFunc(all, time.Time.Compare)
}

// ends is when a term ended, or now if it goes on.
func (t Term) ends(now time.Time) time.Time { return cmp.Or(t.To, now) }
