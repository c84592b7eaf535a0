// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"slices"
	"time"
)

// What the bounds on a leader's absence add to what follows from the timings.
const (
	// settling is the time for requests, their retries and a watch that restarts
	// after a lot was broken.
	settling = 5 * time.Second
	// takingOver is the same where nothing was broken.
	takingOver = time.Second
)

// takeover is how long a free lock may stay without a leader of ours while nothing
// is wrong: a candidate may have seen the last renewal half an interval late, its
// takeover delay is half an interval at most, and one request may get no answer.
func (m mix) takeover() time.Duration { return m.interval() + m.attempt() + takingOver }

// bound is how long it may take until somebody leads, once all is mended: a lease
// whose holder is gone, and another for a takeover that was not finished. After a
// deletion that not all have seen it may take a lease to know that nobody else
// leads. A candidate that gave up because it was unhealthy stays back for as
// long.
func (w *world) bound() time.Duration {
	j := w.judge
	lease := w.mix.lease()
	bound := 2*lease + settling + w.population.margin
	j.mu.Lock()
	defer j.mu.Unlock()
	if gone := j.gone; !gone.IsZero() && time.Since(gone) < 5*lease { // an outage may have hidden the deletion
		bound += lease
	}
	if time.Since(j.cured) < time.Second {
		bound += w.news()
	}
	if !w.sick.IsZero() && time.Since(w.sick) < 5*lease {
		bound += 2 * lease
	}
	return bound
}

// news is how long a candidate whose watch is silent may not know that a person has cured a record which no time
// frees. Who does not wait for a lease reads once in that time.
func (w *world) news() time.Duration { return max(2*time.Minute, 4*w.mix.lease()) }

// live judges that somebody leads once all is mended; that one of ours does once
// the other programs are gone; and that the next one does when that one is gone
// too.
func (w *world) live() {
	mended := time.Now()
	bound := w.bound()
	w.await(mended.Add(bound), "nobody leads %v after all was mended", bound)
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.cluster.harm(step{fault: empties, degree: noZone}) // else the last one would not lead
	w.leave(slices.DeleteFunc(w.current(), func(p *process) bool { return p.ours }))
	w.succeed("others' programs")
	if leader := w.judge.leads(); leader != nil {
		w.leave([]*process{leader})
		w.succeed("the last leader")
	}
}

// leave ends processes permanently: in good order, or as SIGKILL does.
func (w *world) leave(all []*process) {
	killed := w.dice.IntN(2) == 0
	for _, p := range all {
		w.judge.log("%.3fs %v leaves for good, killed: %v", time.Since(w.start).Seconds(), p, killed)
		if killed {
			w.crash(p, 0)
			continue
		}
		w.mu.Lock()
		w.seats[p.seat] = nil
		w.mu.Unlock()
		p.cancel()
	}
	for _, p := range all {
		if !killed {
			<-p.done
		}
	}
}

// succeed judges that one of ours leads as soon as the lock is free for them, and nobody
// else may keep it. If there are two records, one may be left from a term that was not
// released, or be deleted: that takes a lease. So does a release that candidates cannot
// trust.
func (w *world) succeed(whom string) {
	if len(w.current()) == 0 || len(w.judge.verdict()) > 0 {
		return
	}
	bound := w.mix.takeover()
	if w.population.coarse || w.judge.unbelieved() {
		bound += w.mix.lease()
	}
	free, known := w.judge.free()
	if heard := known.Add(w.news()); heard.After(free) {
		free = heard
	}
	w.await(free.Add(bound), "no candidate leads %v after the lock was free, when %s had gone", bound, whom)
}

// await waits until that time, and notes that nobody leads then.
func (w *world) await(until time.Time, format string, args ...any) {
	time.Sleep(time.Until(until))
	leader, j := w.judge.leads(), w.judge
	j.mu.Lock()
	defer j.mu.Unlock()
	if leader == nil && len(j.faults) == 0 {
		j.unlawful(format+": held by %q", append(args, j.lease.holder)...)
	}
}

// free is when the lock is free for candidates: now, or when the last renewal has
// run out, by the longer lease where two records are held. It also returns when the record was cured last.
func (j *judge) free() (free, cured time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	first, second := j.lease, j.legacy
	if first.isHeld() && second.isHeld() {
		longer := max(first.lasts, second.lasts)
		first.lasts, second.lasts = longer, longer
	}
	return now.Add(max(first.left(nil, now), second.left(nil, now))), j.cured
}

// unbelieved reports whether another program released the lock, and no token
// distinguishes it from the terms of ours before: see S3 of docs/design.md.
func (j *judge) unbelieved() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	before := j.lease.record.Details
	return j.lease.theirs && j.lease.given && before.Holder != "" && before.Token == 0
}
