// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/history"
)

// routed is where a group's Service pointed.
type routed struct {
	// Seen is every version of its EndpointSlice. Unread means that some may be missing.
	Seen   history.Pointings
	Unread bool `json:",omitempty"`
	// Addresses are those of the candidates, by their identity.
	Addresses map[string]string
}

// routeFindings are what the judge found about a Service.
type routeFindings struct {
	// Versions are those of the EndpointSlice.
	Versions int `json:"versions"`
	// Unsafe are versions that must never be: see history.Pointings.Wrong.
	Unsafe int `json:"unsafe,omitempty"`
	// Astray is how many leaders the Service did not point to though it should have, and
	// whether it pointed to a candidate that had ended when there was no other.
	Astray int `json:"astray,omitempty"`
	// Terms are how many terms it pointed to, and Slowest how long it took at most, from the
	// beginning of the work.
	Terms   int             `json:"terms,omitempty"`
	Slowest metav1.Duration `json:"slowest,omitzero"`
}

// routing is how long a leader that the API answers may wait until its Service points to it: an
// attempt that was under way hangs, and a pause between attempts follows.
func routing(t election.Timing) time.Duration {
	t = t.WithDefaults()
	return t.RenewDeadline + t.LeaseDuration + slack
}

// routes judges where the Service pointed. It is pure.
func (f *findings) routes(e evidence) {
	r := e.Routed
	if r == nil || r.Unread {
		return
	}
	f.Service = &routeFindings{Versions: len(r.Seen)}
	for _, wrong := range r.Seen.Wrong(history.LeadersOf(e.Printed, r.Addresses)) {
		f.Service.Unsafe++
		f.note("the Service: %s", wrong)
	}
	for who, printed := range e.Printed {
		f.neglected(e, who, printed)
	}
	f.settled(e)
	if last := r.Seen.At(farFuture); e.Ended && last.To() != "" && e.served(last.To()) {
		f.Service.Astray++
		f.note("the Service: it points to %s after all candidates have ended", last.To())
	}
	f.swift(e)
}

// served reports whether the API served a candidate as it ended: its lock was released within a
// third of the time that it had for taking its address out, which takes two requests.
func (e evidence) served(address string) bool {
	for who, printed := range e.Printed {
		if e.Routed.Addresses[who] != address {
			continue
		}
		var stopping time.Time
		for _, x := range printed {
			switch {
			case x.Event == "stopping":
				stopping = x.Time
			case x.Event == "released" && stopping.After(e.Over):
				return x.Time.Sub(stopping) <= e.Timings[who].WithDefaults().RenewDeadline/3
			}
		}
	}
	return false
}

// farFuture is later than anything that was seen.
var farFuture = time.Unix(1<<40, 0)

// neglected finds the terms of a candidate in which the API answered it for long enough, and the
// Service pointed elsewhere. The register shows how long that was.
func (f *findings) neglected(e evidence, who string, printed []events.Event) {
	var since, last time.Time
	var told uint64
	for _, ack := range printed {
		if !ack.Acknowledged() || ack.Token == 0 || ack.Sent.After(e.Over) {
			continue
		}
		if since.IsZero() || ack.Token != told || ack.Sent.Sub(last) > slack {
			since, told = ack.Sent, ack.Token
		}
		last = ack.Sent
		if ack.Sent.Sub(since) < routing(e.Timings[who]) {
			continue
		}
		if now := e.Routed.Seen.At(ack.Sent); now.To() != e.Routed.Addresses[who] {
			f.Service.Astray++
			f.note("the Service: it points to %q, and not to %s, which has written for %v in term %d", now.To(), who, ack.Sent.Sub(since), ack.Token)
			since = ack.Sent // once is enough for as long again
		}
	}
}

// settled checks where the Service points when all has been well for long enough.
func (f *findings) settled(e evidence) {
	i := slices.IndexFunc(e.Terms, func(t history.Span) bool { return t.Start.Before(e.Over) && !t.End.Before(e.Over) })
	if i < 0 || e.Healed.IsZero() {
		return
	}
	leader := e.Terms[i]
	now := e.Routed.Seen.At(e.Over)
	if e.Over.Sub(later(e.Healed, leader.Start)) >= routing(e.Timings[leader.Pod]) && now.To() != e.Routed.Addresses[leader.Pod] {
		f.Service.Astray++
		f.note("the Service: it points to %q at the end, and not to %s, which leads", now.To(), leader.Pod)
	}
}

// swift measures how soon the Service pointed to the leaders.
func (f *findings) swift(e evidence) {
	for _, printed := range e.Printed {
		for _, x := range printed {
			if at, seen := e.Routed.Seen.First(x.Token); x.Event == "leading" && seen {
				f.Service.Terms++
				f.Service.Slowest.Duration = max(f.Service.Slowest.Duration, at.Sub(x.Time).Round(time.Millisecond))
			}
		}
	}
}

// misled says what must not happen to a Service. Unsafe counts in a void run, too.
func (g record) misled(voided bool) (wrong []string) {
	if g.Service == nil {
		return nil
	}
	if g.Service.Unsafe > 0 {
		wrong = append(wrong, "the Service had versions that must not be")
	}
	if g.Service.Astray > 0 && !voided {
		wrong = append(wrong, "the Service pointed astray")
	}
	return wrong
}
