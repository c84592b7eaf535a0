// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package demo judges whether the candidates of a demonstration kept what zonelect promises.
//
// It is pure: [Seen] is what was seen of the candidates, and [Seen.Judge] compares it with the promises.
package demo

import (
	"cmp"
	"fmt"
	"time"

	"github.com/zonelect/zonelect/election/timing"
)

// Term is a time in which a candidate worked as the leader.
type Term struct {
	Candidate string // its identity
	Token     uint64
	From      time.Time
	To        time.Time // zero if the work goes on
}

// Seen is what was seen of a demonstration.
type Seen struct {
	Timing timing.Timing
	// Terms are in the order in which they began: the first leader is told to stop, and the second one's
	// connection is cut.
	Terms []Term

	LeaseEnds time.Time // when the lease of the cut leader's last renewal ends; zero if that is not known
	Healed    time.Time // when its connection was restored
	Followed  time.Time // when it knew who led instead

	Unswept string // why Leases were left in the cluster; empty if none were
}

// slack is how long the requests of a promise may take together.
const slack = 2 * time.Second

// Promise is what zonelect promises, and whether it was kept.
type Promise struct {
	Name string
	Kept bool
	Text string
	Link string // where the promise is explained
}

// Page is where the demonstration is explained.
const Page = "https://github.com/zonelect/zonelect/blob/main/docs/demo.md"

// Judge returns all promises.
func (s Seen) Judge() []Promise {
	var all []Promise
	judge := func(name string, kept bool, format string, args ...any) {
		all = append(all, Promise{name, kept, fmt.Sprintf(format, args...), Page + "#" + name})
	}
	figure := func(name, format string, from, to time.Time, allowed time.Duration) {
		took := to.Sub(from)
		if from.IsZero() || to.IsZero() {
			judge(name, false, "it did not come to that")
			return
		}
		judge(name, 0 <= took && took <= allowed, format+" (at most %s)", text(took), text(allowed))
	}
	t := s.Timing
	var first, second, third Term
	for i, to := range []*Term{&first, &second, &third} {
		if i < len(s.Terms) {
			*to = s.Terms[i]
		}
	}
	renewed := s.LeaseEnds
	if !renewed.IsZero() {
		renewed = renewed.Add(-t.LeaseDuration)
	}
	drift := time.Duration(float64(t.LeaseDuration) * t.MaxClockDrift)
	figure("stop", "the next led %s after the last one had stopped", first.To, second.From, slack)
	figure("trust", "the leader stopped its work %s after its last renewal", renewed, second.To, t.RenewDeadline+t.StopGrace)
	figure("cut", "the next led %s after the lease ended", s.LeaseEnds, third.From, slack+drift)
	follows := slack + t.AttemptTimeout + 2*t.RenewInterval
	figure("heal", "the former leader followed %s after its connection was back", s.Healed, s.Followed, follows)
	alone, grew := true, true
	for i, t := range s.Terms {
		for _, later := range s.Terms[i+1:] {
			alone = alone && !t.To.IsZero() && !later.From.Before(t.To)
			grew = grew && later.Token > t.Token
		}
	}
	judge("one-leader", alone, "no two worked at the same time in %d terms", len(s.Terms))
	judge("tokens", grew, "the fencing token grew with each of %d terms", len(s.Terms))
	judge("nothing-left", s.Unswept == "", "%s", cmp.Or(s.Unswept, "all Leases are removed"))
	return all
}

// text is a duration for people.
func text(d time.Duration) string { return d.Round(max(d.Abs()/1000, time.Millisecond/10)).String() }
