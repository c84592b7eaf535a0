// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"slices"

	"github.com/zonelect/zonelect/election/internal/rules"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
)

// mostProbers is how many candidates ask servers about a holder.
const mostProbers = 2

// deathProbe is a call of Config.ProveDead for one suspect, in its own goroutine. The zero
// deathProbe is about nobody.
type deathProbe struct {
	suspect locks.Suspect
	over    Takeover // the takeover that decided Suspect.Early
	about   rules.Tenure
	proven  chan struct{} // gets a value once the suspect is proven dead
	end     context.CancelFunc
}

// probeDeath asks whether the holder is dead, unless it has asked about this very suspect
// already. A candidate that may not campaign does not ask, because it has no use for the
// answer.
func (r *run) probeDeath() {
	if r.config.ProveDead == nil {
		return
	}
	suspect, suspected := r.observer.Suspect()
	if !suspected || !r.permission.Granted {
		r.endDeathProbe()
		return
	}
	over := r.takeover(rules.Freeing{Cause: status.CauseDied, Holder: suspect.Details.Holder, Details: suspect.Details})
	last := &r.deathProbe
	suspect.Early = last.suspect.Early
	if suspect == last.suspect && slices.Equal(over.Peers, last.over.Peers) && slices.Equal(over.Evacuated, last.over.Evacuated) {
		return // ranking them all again would take time that a takeover does not have
	}
	suspect.Early, last.over = r.isEarly(over), over
	if suspect == last.suspect {
		return
	}
	r.endDeathProbe()
	ctx, end := context.WithCancel(r.watching)
	proven := make(chan struct{}, 1)
	r.deathProbe = deathProbe{suspect: suspect, over: over, about: rules.TenureOf(r.observer.Newest().Record), proven: proven, end: end}
	r.background.Go(func() {
		if r.config.ProveDead(ctx, suspect) == nil {
			proven <- struct{}{}
		}
	})
}

// endDeathProbe ends the call. Its answer no longer counts.
func (r *run) endDeathProbe() {
	if r.deathProbe.end != nil {
		r.deathProbe.end()
	}
	r.deathProbe = deathProbe{}
}

// isEarly reports whether this candidate is among the first at the takeover from
// a holder that has died, as far as it knows.
func (r *run) isEarly(over Takeover) bool {
	sooner := r.sooner(over)
	me, before := locks.Peer{Candidate: r.me}, 0
	for _, p := range r.trusted {
		if p.Identity != over.Previous && sooner(p, me) < 0 {
			before++
		}
	}
	return before < mostProbers
}
