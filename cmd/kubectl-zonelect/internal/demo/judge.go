// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"strings"
	"time"
)

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
	Name   string `json:"name"`
	Result Result `json:"result"`
	Text   string `json:"text"`
	// Milliseconds is the figure, and Allowed the largest one that keeps the promise; none for a
	// promise without a figure.
	Milliseconds *int64 `json:"milliseconds,omitempty"`
	Allowed      *int64 `json:"allowedMilliseconds,omitempty"`
	// Link is where the promise is explained.
	Link string `json:"link"`
}

// promises are all of them, in the order in which they are shown.
var promises = []struct {
	name  string
	judge func(Seen) Promise
}{
	{"stop", Seen.stopped},
	{"kill", Seen.killed},
	{"trust", Seen.stoppedInTime},
	{"cut", Seen.cutOff},
	{"heal", Seen.healed},
	{"one-leader", Seen.oneLeader},
	{"tokens", Seen.tokens},
	{"nothing-left", Seen.nothingLeft},
}

// Names are the names of all promises.
func Names() []string {
	var all []string
	for _, p := range promises {
		all = append(all, p.name)
	}
	return all
}

// Judge returns all promises.
func (s Seen) Judge() []Promise {
	var all []Promise
	for _, p := range promises {
		judged := p.judge(s)
		judged.Name, judged.Link = p.name, link(p.name)
		all = append(all, judged)
	}
	return all
}

// Page is where the demonstration is explained.
const Page = "https://github.com/zonelect/zonelect/blob/main/docs/demo.md"

func link(name string) string { return Page + "#" + name }

// Count returns how many promises have a result.
func Count(all []Promise, r Result) int {
	n := 0
	for _, p := range all {
		if p.Result == r {
			n++
		}
	}
	return n
}

func judged(r Result, format string, args ...any) Promise {
	return Promise{Result: r, Text: fmt.Sprintf(format, args...)}
}

// within judges a figure, which has its place in the format.
func within(took, allowed time.Duration, format string) Promise {
	p := judged(Kept, format, Text(took))
	p.Text += fmt.Sprintf(" (at most %s)", Text(allowed))
	if took > allowed {
		p.Result = Broken
	}
	ms, most := took.Milliseconds(), allowed.Milliseconds()
	p.Milliseconds, p.Allowed = &ms, &most
	return p
}

// Text is a duration for people.
func Text(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Text(-d)
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// missed is the result of a fault that hit no leader.
func (f Fault) missed() Promise {
	if f.At.IsZero() {
		return judged(Unknown, "it did not come to that")
	}
	return judged(Unknown, "%s was not leading", f.Leader)
}

// stopped: a leader that is told to stop hands over.
func (s Seen) stopped() Promise {
	was, led := s.hit(s.Stop)
	next, leads := s.next(s.Stop)
	switch {
	case !led:
		return s.Stop.missed()
	case was.To.IsZero():
		return judged(Broken, "the work of %s did not stop", s.Stop.Leader)
	case !leads:
		return judged(Broken, "nobody led after %s", s.Stop.Leader)
	}
	took := next.From.Sub(was.To)
	if took < 0 {
		return judged(Broken, "the next led %s before the last one had stopped", Text(-took))
	}
	return within(took, s.bounds().stop, "the next led %s after the last one had stopped")
}

// killed: after a kill, the next leads when the lease ends, and not before.
func (s Seen) killed() Promise { return s.succeeded(s.Kill, "kill") }

// cutOff: the same after a cut.
func (s Seen) cutOff() Promise { return s.succeeded(s.Cut, "cut") }

func (s Seen) succeeded(f Fault, what string) Promise {
	next, leads := s.next(f)
	_, led := s.hit(f)
	switch {
	case !led:
		return f.missed()
	case !leads:
		return judged(Broken, "nobody led after %s", f.Leader)
	case f.LeaseEnds.IsZero():
		return judged(Unknown, "when the lease ended is not known: %s", f.Unknown)
	}
	took := next.From.Sub(f.LeaseEnds)
	if took < 0 {
		return judged(Broken, "the next led %s before the lease ended", Text(-took))
	}
	p := within(took, s.bounds().lease, "the next led %s after the lease ended")
	p.Text += fmt.Sprintf(", %s after the %s", Text(next.From.Sub(f.At)), what)
	return p
}

// stoppedInTime: a leader that hears nothing stops its work before others may lead.
func (s Seen) stoppedInTime() Promise {
	was, led := s.hit(s.Cut)
	switch {
	case !led:
		return s.Cut.missed()
	case was.To.IsZero():
		return judged(Broken, "the work of %s did not stop", s.Cut.Leader)
	case s.Cut.LeaseEnds.IsZero():
		return judged(Unknown, "when the lease ended is not known: %s", s.Cut.Unknown)
	}
	t := s.Timing.WithDefaults()
	renewed := s.Cut.LeaseEnds.Add(-t.LeaseDuration)
	took := was.To.Sub(renewed)
	return within(took, t.RenewDeadline+t.StopGrace, "the leader stopped its work %s after its last renewal")
}

// healed: a former leader whose connection is back follows.
func (s Seen) healed() Promise {
	next, leads := s.next(s.Cut)
	if !leads || s.Healed.IsZero() {
		return judged(Unknown, "the connection was not restored")
	}
	for _, e := range inOrder(s.Events) {
		switch {
		case e.Candidate != s.Cut.Leader || e.Time.Before(s.Healed):
		case e.Kind == Leading:
			return judged(Broken, "the former leader led again, beside %s", next.Candidate)
		case e.Kind == Following && e.Leader == next.Candidate:
			took := e.Time.Sub(s.Healed)
			return within(took, s.bounds().heal, "the former leader followed %s after its connection was back")
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
	now := s.last()
	for i, t := range all {
		for _, other := range all[i+1:] {
			if both := earlier(t.ends(now), other.ends(now)).Sub(other.From); both > 0 {
				return judged(Broken, "two worked at the same time for %s: %s and %s", Text(both), t.Candidate, other.Candidate)
			}
		}
	}
	return judged(Kept, "no two worked at the same time in %d terms", len(all))
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// tokens: each term has a larger fencing token than all before it.
func (s Seen) tokens() Promise {
	all := Terms(s.Events)
	if len(all) == 0 {
		return judged(Unknown, "nobody led")
	}
	for i, t := range all[1:] {
		if before := all[i]; t.Token <= before.Token {
			return judged(Broken, "the token did not grow: %d of %s, after %d of %s", t.Token, t.Candidate, before.Token, before.Candidate)
		}
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
	return judged(Kept, "all Leases are removed, and all processes have ended")
}
