// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"errors"
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
)

// acquisition is a takeover, from the first write on until one wins the lock.
type acquisition struct {
	rules.Freeing
	first time.Time // when the first write was sent
	won   answer    // to the write that won
}

// free returns when this candidate may take the lock. That is what the rules say, delayed
// by the precedence of the former leader after an outage or of a named successor, by the
// takeover delay of other candidates, which it returns too, and by the time for which a candidate that
// gave the lock up leaves it to others. A named successor waits only for its own health.
func (r *run) free() (free rules.Freeing, delay time.Duration, known bool) {
	if free, known = r.observer.Free(); !known {
		return free, 0, false
	}
	if free.RanOut() {
		free.At = rules.Latest(free.At, r.outage.Over(time.Now()))
	}
	switch {
	case free.Cause == status.CauseReclaimed: // nobody else can take that
	case free.Handover.To != r.me.Identity:
		delay = r.takeoverDelay(r.takeover(free))
		free.At = rules.Latest(free.At.Add(free.Handover.Precedence+delay), r.holdOff)
	case r.fitness.problem == nil:
		return free, 0, true
	}
	free.At = r.healthyFirst(free.At)
	return free, delay, true
}

// perform sends the request that next decided on.
func (f *following) perform(do step) {
	if do != write {
		if do == overtake {
			f.overtake()
		}
		read := request{op: opRead, since: f.exchange.unanswered, asOf: f.observer.Newest().Version, limit: f.config.Timing.RenewDeadline}
		if f.exchange.overtaken > 0 { // a dial and the answer get as long each: the next needs that connection
			read.limit *= 2
		}
		if do == readFresh {
			read.since = time.Now()
		}
		f.refreshAt = time.Time{}
		// A read that only prepares for the expiry keeps its connection for the takeover.
		// Any other fresh read means that the watch may be dead, too.
		f.rewatch = read.fresh() && (!f.askNext().After(time.Now()) || !f.exchange.unanswered.IsZero())
		f.send(read)
		return
	}
	now := f.clock.now()
	if f.acquisition.first.IsZero() {
		f.acquisition.Freeing, _ = f.observer.Free()
		f.acquisition.first = now.awake
	}
	base, record := f.observer.Takeover(f.me, now.awake)
	record.Details.ProcessLock = f.config.ProcessLock()
	record.Previous = rules.PreviousOf(f.acquisition.Freeing, now.awake)
	// A later answer than that would leave no trust.
	f.send(request{op: opAcquire, base: base, record: record, sent: now, limit: f.config.Timing.RenewDeadline})
}

// overtake notes that the request under way is slow or lost. A write may have landed, so
// this candidate writes nothing more before a read has shown whether it did.
func (f *following) overtake() {
	slow := f.exchange.newest
	f.exchange.overtake()
	f.blind = true
	if slow.fresh() {
		f.outage.Missed(slow.sent.awake)
	}
	if f.rewatch && !slow.writes() && f.mayWatchAnew(time.Now()) {
		f.rewatched = time.Now()
		f.watcher.start(f.watching) // while etcd has no leader, no read is answered, but a watch may be
	}
}

// mayWatchAnew reports whether the watch may begin again before a read is answered: once for
// each silence, and seldom. A server that is always slow would be asked in vain.
func (f *following) mayWatchAnew(now time.Time) bool {
	t := f.config.Timing
	return f.watcher.running() && !f.watcher.began.After(f.heard) &&
		f.exchange.roundTrip()*3/2 <= t.AttemptTimeout && now.Sub(f.rewatched) > 10*t.LeaseDuration
}

// answered handles an answer and reports whether it won the lock.
func (f *following) answered(a answer) bool {
	now := time.Now()
	if a.op == opRead && a.known {
		return false
	}
	// The last term ended without waiting for the answer to this write: it begins no
	// term.
	if a.op == opRenew || a.op == opRelease {
		f.observeAnswer(a)
		f.readFirst(now)
		return false
	}
	if !a.failed() {
		f.outage.Answered(now)
	} else {
		if a.newest {
			f.blind = true
		}
		if a.fresh() {
			f.outage.Missed(a.sent.awake)
		}
	}
	if a.op == opRead {
		f.answeredRead(a, now)
		return f.shownToHaveWon(a, now)
	}
	return f.answeredClaim(a, now)
}

// answeredClaim handles the answer to an acquisition and reports whether it won.
func (f *following) answeredClaim(a answer, now time.Time) bool {
	f.report.answer(a)
	if a.err == nil {
		f.observe(a.snapshot, now)
		f.acquisition.won = a
		// The record may be of another candidate by now, and deleted since.
		return f.observer.IsOfThisProcess(f.observer.LastRecord()) && f.inTime(a)
	}
	// Somebody else wrote, or nobody knows whether this write landed.
	if a.conflict() {
		f.exchange.refused(a)
		f.retryAt = now
	} else {
		f.exchange.doubt()
		f.retryAt = now.Add(f.retries.next() + f.currentStagger())
		f.claimAt = now.Add(f.refusals.next())
	}
	return false
}

// shownToHaveWon reports whether a read has shown that an acquisition of this candidacy landed
// although its answer has not come.
func (f *following) shownToHaveWon(read answer, now time.Time) bool {
	w := f.exchange.shownLanding(read)
	if w == nil || f.acquisition.Cause == "" {
		return false
	}
	won := w.landed(f.observer.Newest(), now)
	if !f.inTime(won) {
		return false
	}
	f.report.result(opWrite, nil)
	f.exchange.newest = nil // its answer is known already
	f.acquisition.won = won
	return true
}

// inTime reports whether there is trust in an acquisition that has landed. Without it somebody else may have had the
// lock since, and the record may have been put back.
func (f *following) inTime(won answer) bool {
	return f.clock.now().sinceAtMost(f.exchange.trustedFrom(won)) < f.config.Timing.RenewDeadline
}

// answeredRead handles the answer to a read.
func (f *following) answeredRead(a answer, now time.Time) {
	if a.err != nil {
		f.report.result(opRead, a.err)
		if a.newest {
			f.retryAt = now.Add(f.retries.next() + f.currentStagger())
			f.refreshAt = f.retryAt
		}
		return
	}
	f.report.result(opRead, nil)
	f.exchange.measure(a)
	f.retries.reset()
	before := f.observer.Seen()
	news := f.observeRead(a, f.blind, now)
	f.exchange.counts(a, news)
	if f.exchange.landedSince(a) {
		f.readFirst(now)
	}
	if f.exchange.isStillNewest() {
		f.claimAt = now.Add(f.refusals.next())
	}
	f.blind = false
	f.forgetLostWrite()
	f.exchange.waitAgain(a.snapshot, now)
	if news {
		f.publishHolder()
	}
	if news && f.tells(a.snapshot, before) {
		f.gaps = [2]time.Duration{} // the watch did not report it
		f.news(now)
	} else if a.fresh() {
		// One read does both: it answers the silence, and prepares for an expiry that is
		// near.
		free, _, known := f.free()
		f.asked, f.prepared = now, known && !free.At.After(now.Add(f.ahead))
	}
	if a.snapshot.Version.Exists() { // else the watch goes on from the known version, and leaves nothing out
		f.watcher.resume = a.snapshot.Version
	}
	if f.rewatch && !f.watcher.heard.After(a.sent.awake) {
		f.watcher.start(f.watching)
	}
}

// forgetLostWrite forgets the problem with a write whose answer was lost, once another
// candidate is seen to hold the lock: the write is settled, and no other will follow it. A
// problem with a write that the server refused stays, because the server would refuse it
// again.
func (r *run) forgetLostWrite() {
	holder, _ := r.observer.Holder()
	lost := r.report.problems[opWrite]
	if holder != "" && holder != r.me.Identity && !isRefusal(lost) {
		r.report.result(opWrite, nil)
	}
}

// isRefusal reports whether the server refused a request and would refuse it again.
func isRefusal(err error) bool {
	return errors.Is(err, locks.ErrForbidden) || errors.Is(err, locks.ErrNoAPI)
}
