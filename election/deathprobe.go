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

// deathProbe is the question about one suspect, which is asked in a goroutine of
// its own. The zero deathProbe is about nobody.
type deathProbe struct {
	suspect locks.Suspect
	over    Takeover // the takeover that Suspect.Early was decided by
	about   rules.Tenure
	proven  chan struct{} // gets a word when it is dead
	end     context.CancelFunc
}

// probeDeath asks whether the holder is dead, if that was not asked yet as things
// are now. Who may not campaign has no use for it.
func (r *run) probeDeath() {
	if r.config.Dead == nil {
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
		return // to rank them all again would take time that a takeover has not
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
		if r.config.Dead(ctx, suspect) == nil {
			proven <- struct{}{}
		}
	})
}

// endDeathProbe ends the question; its answer no longer counts.
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
	me, before := locks.Peer{Candidate: r.config.Candidate}, 0
	for _, p := range r.peers {
		if p.Identity != over.Previous && sooner(p, me) < 0 {
			before++
		}
	}
	return before < mostProbers
}
