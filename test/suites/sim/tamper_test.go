// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"time"

	"github.com/zonelect/zonelect/locks/lockstest"
)

// tamper manually edits a record that asks for a longer lease than some candidates
// would, while its holder is cut off and cannot repair it. All that campaign have
// seen that lease, and must go on waiting for it. The edit waits until they have
// seen it.
func (w *world) tamper(s step) {
	holder := w.known()
	if holder == nil {
		if wait := w.mix.interval(); !w.mix.even() && s.lasts > wait && !w.mended.Load() {
			s.lasts -= wait
			time.AfterFunc(wait, func() { w.tamper(s) })
		}
		return
	}
	how := int(s.degree / time.Millisecond)
	kind := []fault{remove, hide, forge, bare}[how/2%4]
	blind := time.Second // so that the next watch shows what this one did not
	if how%2 == 1 || kind == hide {
		blind = 2 * w.mix.lease()
	}
	for _, p := range w.current() {
		if p != holder {
			w.inject(p, lockstest.Fault{Mute: true}, blind)
		}
	}
	away := w.mix.lease()
	w.judge.tamper(holder, kind)
	if kind == hide { // it comes back just in time to recreate the record, and is cut off again
		trust := holder.timing.RenewDeadline
		away = trust/4 + s.lasts%(trust/2)
		w.again.Store(holder)
		w.hides.Store(1)
	}
	w.inject(holder, lockstest.Fault{Hang: true}, away)
	w.cluster.harm(step{fault: kind})
}

// known is the holder, if it has the longest lease of a mix of more than one, and
// all that campaign have seen its record by now.
func (w *world) known() *process {
	w.judge.mu.Lock()
	h := w.judge.lease
	w.judge.mu.Unlock()
	long := h.exists && h.isHeld() && !h.theirs && h.lasts >= w.mix.lease()
	if !long || w.mix.even() || w.population.coarse || w.mended.Load() {
		return nil
	}
	holder, since, here := h.by, h.since, false
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.seats {
		if p == nil {
			continue
		}
		here = here || p == holder
		for _, t := range []time.Time{p.started, p.well} {
			if t.After(since) {
				since = t
			}
		}
	}
	if !here || time.Since(since) < 2*w.mix.interval()+w.mix.attempt() {
		return nil
	}
	return holder
}

// ail makes a process unhealthy for a while. The caller holds mu.
func (p *process) ail(lasts time.Duration) {
	if until := time.Now().Add(lasts); until.After(p.well) {
		p.well = until
	}
}

// tamper notes that somebody is about to edit a record.
func (j *judge) tamper(holder *process, how fault) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.tampered, j.victim = time.Now(), holder
	j.log("%.3fs a hand tampers with the record of %v: %s", time.Since(j.start).Seconds(), holder, how)
}

// tamperedWith reports whether somebody has edited the record not long ago.
func (w *world) tamperedWith() bool {
	j := w.judge
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.tampered.IsZero() && time.Since(j.tampered) < 3*w.mix.lease()
}

// misled reports whether by cannot know how long the holder's lease lasts: it has
// started after somebody edited the record, which no longer changes, and others wait
// longer than it does.
func (j *judge) misled(by *process, h *held) bool {
	return h == &j.lease && j.victim != nil && h.by == j.victim && !by.started.Before(j.tampered) &&
		by.lease < h.lasts
}
