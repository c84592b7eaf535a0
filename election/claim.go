// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
)

// mostAttempts is how many attempts of a takeover are kept: the first one and the
// last ones.
const mostAttempts = 100

// acquisition is a takeover, from the first write on until one wins the lock.
type acquisition struct {
	rules.Freeing
	attempts []answer   // writes and the reads between them; the last one won
	pending  sentWrites // those that amend the one which won
}

// won is the write that won.
func (v acquisition) won() answer { return v.attempts[len(v.attempts)-1] }

// newest is the write that was sent last: the one that won, or what amends it.
func (v acquisition) newest() request {
	if n := len(v.pending); n > 0 {
		return v.pending[n-1]
	}
	return v.won().request
}

// inOrder are the attempts as they were sent. A read that overtook the write which
// won was answered before that is known.
func (v acquisition) inOrder() []answer {
	return slices.SortedStableFunc(slices.Values(v.attempts), func(a, b answer) int { return a.sent.awake.Compare(b.sent.awake) })
}

// freeing says when this candidate may take a free lock, and why.
type freeing struct {
	rules.Freeing
	headStart time.Duration // what it leaves to others, which is part of At
}

// free is when this candidate may take the lock: what the rules say, later by the
// precedence of the former leader after an outage or of a successor that was
// named, by the head start that others have and by the courtesy of who gave it
// up. Whoever was named waits for nothing but its health.
func (r *run) free() (freeing, bool) {
	when, known := r.observer.Free()
	free := freeing{Freeing: when}
	if known && free.RanOut() {
		free.At = rules.Latest(free.At, r.outage.Over(time.Now()))
	}
	switch {
	case !known || free.Cause == status.CauseReclaimed: // nobody else can have that
	case free.Handover.To != r.config.Candidate.Identity:
		free.headStart = r.headStart(r.takeover(when))
		free.At = rules.Latest(free.At.Add(free.Handover.Precedence+free.headStart), r.holdOff)
	case r.fitness.problem == nil:
		return free, known
	}
	free.At = r.healthyFirst(free.At)
	return free, known
}

// perform sends the request that was decided on.
func (f *following) perform(do action) {
	if do != claim {
		if do == overtake {
			f.overtake()
		}
		read := request{op: opRead, since: f.unanswered, asOf: f.observer.Newest().Version, limit: f.config.Timing.RenewDeadline}
		if f.overtaken > 0 {
			read.limit = dialAndAnswer(f.config.Timing)
		}
		if do == readFresh {
			read.since = time.Now()
		}
		f.refresh = false
		// A read that only prepares for the expiry leaves its connection to the
		// takeover; any other shows that the watch may be as good as dead.
		f.rewatch = read.fresh() && (!f.asked || !f.unanswered.IsZero())
		f.requester.send(f.requests, read)
		return
	}
	if len(f.acquisition.attempts) == 0 {
		f.acquisition.Freeing, _ = f.observer.Free()
	}
	base, now := f.observer.Newest(), f.clock.now()
	record := rules.Creation(f.observer.LastRecord(), f.config.Candidate, f.config.Timing.LeaseDuration, now.awake)
	if base.Version.Exists() {
		record = rules.Acquisition(base.Record, f.config.Candidate, f.config.Timing.LeaseDuration, now.awake)
	}
	if f.observer.NeedsProof(base) {
		record.Details.Waits = pastUnknown
		record.LeaseDuration = f.observer.LongerLease() // if it is not renewed, others wait as this candidate would
	}
	record.Details.ProcessID, record.Details.Nonce = f.config.ProcessID(), f.nonce
	write := request{op: opAcquire, base: base.Version, record: record, sent: now, limit: f.config.Timing.RenewDeadline} // no trust would be left of a later answer
	f.sendWrite(&f.writes, write)
}

// sendWrite sends a write, and notes it among those of its candidacy or term.
func (r *run) sendWrite(writes *sentWrites, write request) {
	writes.add(write)
	r.requester.send(r.requests, write)
}

// amendClaim renews an acquisition whose answer is still to come.
func (f *following) amendClaim() {
	last, now := f.requester.newest.record, f.clock.now()
	record := rules.Renewal(last, last.Details, last.LeaseDuration, now.awake)
	write := request{op: opAcquire, before: &last, record: record, sent: now, limit: dialAndAnswer(f.config.Timing)}
	f.sendWrite(&f.writes, write)
}

// overtake notes that the request under way is slow or lost. A write may have
// landed: nothing more is written before a read has told.
func (f *following) overtake() {
	slow := f.requester.newest
	f.overtaken++
	f.unanswered, f.blind = slow.sent.awake, true
	if slow.fresh() {
		f.outage.Missed(slow.sent.awake)
	}
	if slow.op == opAcquire {
		f.unsure, f.unsureAt = true, time.Now()
		f.claimAt = slow.sent.awake.Add(spacing(f.config.Timing))
	}
}

// answered handles an answer and reports whether it won the lock.
func (f *following) answered(a answer) bool {
	now := time.Now()
	if a.op == opRead && !a.newest && errors.Is(a.err, context.Canceled) {
		return false
	}
	if a.refused() && !a.breaksChain {
		f.writes.drop(a.flight)
		return false // so did an earlier one
	}
	// An answer to a write of the last term, whose end has not waited for it, begins none.
	if a.op == opRenew || a.op == opRelease {
		f.observeAnswer(a)
		f.readFirst(now)
		return false
	}
	f.noteAnswer(a, now)
	if a.op == opRead {
		f.answeredRead(a, now)
		return f.readShows(a) && f.shownToHaveWon(now)
	}
	return f.answeredClaim(a, now)
}

// noteAnswer notes what an answer says about its connection and the API, and keeps it if a
// takeover is under way.
func (f *following) noteAnswer(a answer, now time.Time) {
	if !a.failed() {
		f.unanswered, f.overtaken = time.Time{}, 0
		f.outage.Answered(now)
	} else {
		if a.newest {
			f.unanswered, f.blind = a.sent.awake, true
		}
		if a.fresh() {
			f.outage.Missed(a.sent.awake)
		}
	}
	if a.op == opAcquire || f.acquisition.Cause != "" {
		if len(f.acquisition.attempts) == mostAttempts { // of an outage that may last
			f.acquisition.attempts = slices.Delete(f.acquisition.attempts, 1, 2)
		}
		f.acquisition.attempts = append(f.acquisition.attempts, a)
	}
}

// answeredClaim handles the answer to an acquisition and reports whether it won.
func (f *following) answeredClaim(a answer, now time.Time) bool {
	if a.refused() {
		f.writes.drop(a.flight)
		f.readFirst(now)
		return false
	}
	f.reportWrite(a)
	if a.err == nil {
		f.observe(a.snapshot, now)
		return true
	}
	// Somebody else wrote, or nobody knows whether this write landed.
	f.readFirst(now)
	f.denied = nil
	if a.conflict() {
		f.writes.drop(a.flight)
		f.denied = &a.base
	} else {
		f.retryAt = now.Add(f.retries.next() + f.currentStagger())
		f.claimAt = rules.Latest(a.sent.awake.Add(spacing(f.config.Timing)), now.Add(f.refusals.next()))
	}
	return false
}

// shownToHaveWon reports whether a read has shown an acquisition of this candidacy's whose
// answer has not come: that is as good, see [leadership.confirm].
func (f *following) shownToHaveWon(now time.Time) bool {
	w, ok := f.writes.landed(f.observer.Newest())
	if !ok || !f.observer.Exact() || f.acquisition.Cause == "" || f.clock.now().since(w.sent) >= f.config.Timing.RenewDeadline {
		return false
	}
	f.report(opWrite, nil)
	f.requester.stopWaiting()
	f.acquisition.attempts = append(f.acquisition.attempts, w.landed(f.observer.Newest(), now))
	return true
}

// answeredRead handles the answer to a read.
func (f *following) answeredRead(a answer, now time.Time) {
	if a.err != nil {
		f.report(opRead, a.err)
		if a.newest {
			f.refresh = true
			f.retryAt = now.Add(f.retries.next() + f.currentStagger())
		}
		return
	}
	f.report(opRead, nil)
	f.measure(a)
	f.retries.reset()
	news := f.observeRead(a, f.blind, now)
	if news || !a.sent.awake.Before(f.unsureAt) {
		f.unsure = false
	}
	if f.isStillNewest(f.denied) {
		f.claimAt = now.Add(f.refusals.next())
	}
	f.blind = false
	f.forgetLostWrite()
	if news {
		f.gaps = [2]time.Duration{} // the watch has not told
		f.news(now)
		f.publishHolder()
	} else if a.fresh() {
		// One read answers for both, the silence and an expiry that is near.
		free, known := f.free()
		f.asked, f.prepared = true, known && !free.At.After(now.Add(f.ahead+f.prepareEarly(free.headStart)))
	}
	if a.snapshot.Version.Exists() { // else the watch goes on from what is known, and leaves nothing out
		f.watcher.resume = a.snapshot.Version
	}
	if f.rewatch && !f.watcher.heard.After(a.sent.awake) {
		f.watcher.start(f.watching)
	}
}

// isStillNewest reports whether what a write was to replace is still the newest that is
// known, after it met a conflict and a read: nothing explains that, and a server
// that refuses all writes is not asked in haste.
func (r *run) isStillNewest(denied *locks.Version) bool {
	return denied != nil && r.observer.Newest().Version.Number == denied.Number
}
