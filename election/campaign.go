// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
)

// prepareLead is how long before an expiry a candidate that is about to take
// over makes sure of a living connection: at least, for that takes two answers.
const prepareLead = time.Second

// campaign is one candidacy: what is done until the lock is won. Its fields
// are the state, next is the decision, and run.campaign the loop around it.
type campaign struct {
	timing Timing

	unsure     bool             // nothing is written before a read has told how things are
	unsureAt   time.Time        // since when; only a read that was sent then or later tells
	wish       bool             // a read would be good, but nothing waits for it
	wishAt     time.Time        // no read that nothing waits for before this
	retryAt    time.Time        // no read before this
	claimAt    time.Time        // no write before this: the last may have landed
	heard      time.Time        // when there was news of the lock, by any way
	gaps       [2]time.Duration // between the last events of the watch, the newest last
	asked      bool             // silence has been answered by a read
	prepared   bool             // the connection was made sure of for this expiry
	doubt      time.Time        // when the last request was sent, if it got no answer: its connection may be dead
	patience   time.Duration    // how long a request goes without an answer until another overtakes it
	amendEvery time.Duration    // how long a claim goes without an answer until it is amended; zero if it is not
	overtaken  int              // how many requests were overtaken since there was an answer
	lead       time.Duration    // how long before an expiry the connection is made sure of
	writes     sentWrites
	rewatch    bool    // the read on its way is to be followed by another watch
	blind      bool    // since the last read things may have happened unseen
	retries    *pauses // between reads that fail
	refusals   *pauses // between writes that fail or are refused

	// What all do at the same moment this candidate does later or earlier by this.
	turn, prepareEarly time.Duration

	denied  *locks.Version // what the last write was to replace, if it met a conflict
	barred  bool           // the lock's guardian does not let this candidate campaign
	victory victory        // the takeover that is under way
}

// action is what a campaign does next.
type action int

const (
	wait action = iota
	readOnce
	readFresh
	overtake // read on another connection: the request under way is slow, or lost
	amend    // write once more before the answer to the last write comes
	claim
)

// news notes that the lock changed: all waiting starts anew.
func (c *campaign) news(now time.Time) {
	c.heard, c.asked, c.prepared = now, false, false
	c.refusals.reset()
}

// readFirst has a read sent at once, and nothing written before one that is sent from
// now on has told how things are.
func (c *campaign) readFirst(now time.Time) { c.unsure, c.unsureAt, c.retryAt = true, now, now }

// silence is how long nothing is heard until this candidate asks by itself. A
// holder whose renewals take long is heard of less often: of the last two gaps
// between events the shorter one counts, so that one late renewal does not.
func (c *campaign) silence() time.Duration {
	gap := min(c.gaps[0], c.gaps[1], c.timing.LeaseDuration/3)
	return max(c.timing.Silence(), gap*3/2)
}

// next decides what to do now, or until when to wait. free is when the lock
// may be taken, head start included; known says whether that is known. While
// the answer to a request is waited for only a claim is worth deciding on, and
// whether to go on waiting.
func (c *campaign) next(now, free time.Time, known bool, waitsFor *flight) (action, time.Time) {
	later := now.Add(time.Hour)
	at := func(t time.Time) bool {
		if t.After(now) && t.Before(later) {
			later = t
		}
		return !t.After(now)
	}
	claiming := waitsFor != nil && waitsFor.op == opAcquire
	if known && !c.barred && !c.unsure && !claiming && at(latest(free, c.claimAt)) {
		return claim, now
	}
	if waitsFor != nil {
		if c.amendEvery > 0 && claiming && known && !c.barred && !c.unsure {
			if at(latest(free, waitsFor.sent.awake.Add(c.amendEvery))) {
				return amend, now
			}
			return wait, later
		}
		if at(waitsFor.sent.awake.Add(c.patience)) {
			return overtake, now
		}
		return wait, later
	}
	if c.unsure && at(c.retryAt) || c.wish && at(latest(c.wishAt, c.retryAt)) {
		return readOnce, now
	}
	if !known {
		return wait, later
	}
	quiet := c.heard.Add(c.silence() + c.turn)
	if !c.prepared && at(latest(free.Add(-c.lead-c.prepareEarly), quiet, c.retryAt)) {
		return readFresh, now
	}
	if !c.asked && at(latest(quiet, c.retryAt)) {
		return readFresh, now
	}
	return wait, later
}

func latest(first time.Time, more ...time.Time) time.Time {
	for _, t := range more {
		if t.After(first) {
			first = t
		}
	}
	return first
}

// mostAttempts is how many attempts of a takeover are kept: the first one and the
// last ones.
const mostAttempts = 100

// victory is a takeover, from the first write on until one wins the lock.
type victory struct {
	freeing
	life     time.Time  // the last sign of life of the holder before
	attempts []answer   // writes and the reads between them; the last one won
	pending  sentWrites // those that amend the one which won
}

// won is the write that won.
func (v victory) won() answer { return v.attempts[len(v.attempts)-1] }

// newest is the write that was sent last: the one that won, or what amends it.
func (v victory) newest() request {
	if n := len(v.pending); n > 0 {
		return v.pending[n-1].request
	}
	return v.won().request
}

// inOrder are the attempts as they were sent. A read that overtook the write which
// won was answered before that is known.
func (v victory) inOrder() []answer {
	return slices.SortedStableFunc(slices.Values(v.attempts), func(a, b answer) int { return a.sent.awake.Compare(b.sent.awake) })
}

// campaign follows the holder and takes the lock when it is free. It returns
// an error only when ctx has ended or the guardian has left, after giving back
// what it won meanwhile.
func (r *run) campaign(ctx context.Context) (victory, error) {
	interval := r.config.Timing.RenewInterval
	c := &campaign{timing: r.config.Timing, unsure: true, retries: newPauses(interval/10, interval, r.share), refusals: newPauses(interval/10, 4*interval, r.share)}
	if r.judge.own() {
		c.retries = newPauses(interval/10, interval/4, r.share) // it is within a precedence that the lock can be had back
	}
	c.news(time.Now())
	r.outage = outage{after: c.timing.RenewDeadline, precedence: c.timing.Precedence, answered: time.Now()}
	r.board.update(func(s *Status) { s.State = StateFollower })
	defer r.endInquest()
	for {
		r.pulse.until(time.Now())
		until := r.proceed(c)
		r.pulse.until(until)
		alarm, stopAlarm := sleep.After(time.Until(until))
		won := false
		select {
		case <-ctx.Done():
			stopAlarm()
			r.withdraw(c)
			return victory{}, context.Cause(ctx)
		case a := <-r.courier.answers:
			won = r.answered(c, r.courier.received(a))
		case e := <-r.watcher.events:
			r.heard(c, e)
		case err := <-r.watcher.ended:
			r.watchEnded(err)
			if err != nil {
				c.wish, c.blind, c.wishAt = true, true, time.Now().Add(r.turnNow())
			}
		case clearance := <-r.clearances:
			r.cleared(clearance)
		case peers := <-r.met:
			r.meet(peers)
		case problem := <-r.checked:
			r.feel(problem)
		case <-r.inquest.proven:
			r.died()
		case err := <-r.left:
			stopAlarm()
			r.withdraw(c)
			return victory{}, abandoned(err)
		case f := <-r.farewells:
			f.over <- f.moot(r.dog.Load()) // the term ended while it was asked to
		case <-alarm:
		}
		stopAlarm()
		if won {
			c.victory.pending = c.writes.amending(c.victory.won())
			return c.victory, nil
		}
	}
}

// proceed does what is due and returns when to look again at the latest.
func (r *run) proceed(c *campaign) time.Time {
	now := time.Now()
	if r.judge.known && r.watcher.due(now) {
		r.watcher.start(r.watching)
	}
	r.inquire()
	free, known := r.free()
	if !r.courier.acquiring() && (!known || free.at.After(now)) {
		c.victory = victory{} // another one was faster, or the holder lives
	}
	c.barred = !r.clearance.Granted || r.unfit()
	c.turn, c.prepareEarly = r.turn(free.headStart), r.prepareEarly(free.headStart)
	c.patience, c.amendEvery = r.impatience(c), r.courier.amendEvery(c.timing, now)
	c.lead = max(prepareLead, min(2*r.courier.took, c.timing.LeaseDuration/4))
	do, until := c.next(now, free.at, known, r.courier.newest)
	switch {
	case do == wait:
	case do == amend:
		r.amendClaim(c)
		until = now
	case r.courier.room():
		r.act(c, do)
		until = now
	default:
		until = now.Add(time.Hour)
	}
	return r.watcher.earlier(until)
}

// impatience is how long a request of this candidacy may go without an answer
// until another overtakes it. A candidate that gets no answers gives each request
// more time. The former leader does not, so that it is back first after an outage.
func (r *run) impatience(c *campaign) time.Duration {
	patience, timing := r.patience(), r.config.Timing
	if r.judge.own() {
		return patience
	}
	return max(patience, min(patience<<min(c.overtaken, 4), timing.AttemptTimeout+timing.RenewInterval*3/2))
}

// free is when this candidate may take the lock: the judge's word, later by the
// precedence of the former leader after an outage or of a successor that was
// named, by the head start that others have and by the courtesy of who gave it
// up. Whoever was named waits for nothing but its health.
func (r *run) free() (freeing, bool) {
	free, known := r.judge.free()
	if known && free.cause.ranOut() {
		free.at = latest(free.at, r.outage.over(time.Now()))
	}
	switch {
	case !known || free.cause == CauseReclaimed: // nobody else can have that
	case free.handover.To != r.config.Candidate.Identity:
		free.headStart = r.headStart(free)
		free.at = latest(free.at.Add(free.handover.Precedence+free.headStart), r.holdOff)
	case r.fitness.problem == nil:
		return free, known
	}
	free.at = r.healthyFirst(free.at)
	return free, known
}

// act sends the request that was decided on.
func (r *run) act(c *campaign, do action) {
	if do != claim {
		if do == overtake {
			r.overtake(c)
		}
		read := request{op: opRead, since: c.doubt, asOf: r.judge.newest.Version, limit: r.config.Timing.RenewDeadline}
		if c.overtaken > 0 {
			read.limit = r.config.Timing.dialAndAnswer()
		}
		if do == readFresh {
			read.since = time.Now()
		}
		c.wish = false
		// A read that only prepares for the expiry leaves its connection to the
		// takeover; any other shows that the watch may be as good as dead.
		c.rewatch = read.fresh() && (!c.asked || !c.doubt.IsZero())
		r.courier.send(r.requests, read)
		return
	}
	if len(c.victory.attempts) == 0 {
		c.victory.freeing, _ = r.judge.free()
		c.victory.life = r.judge.life(c.victory.cause)
	}
	base, now := r.judge.newest, r.clock.now()
	record := creation(r.judge.renewal, r.config.Candidate, r.config.Timing.LeaseDuration, now.awake)
	if base.Version.Exists() {
		record = acquisition(base.Record, r.config.Candidate, r.config.Timing.LeaseDuration, now.awake)
	}
	if r.judge.asks(base) {
		record.Details.Waits = pastUnknown
		record.LeaseDuration = r.judge.longerLease() // if it is not renewed, others wait as this candidate would
	}
	record.Details.ProcessID, record.Details.Nonce = r.config.marks(), r.judge.nonce
	write := request{op: opAcquire, base: base.Version, record: record, made: now, limit: r.config.Timing.RenewDeadline} // no trust would be left of a later answer
	r.sendWrite(&c.writes, write)
}

// sendWrite sends a write, and notes it among those of its candidacy or term.
func (r *run) sendWrite(writes *sentWrites, write request) {
	writes.add(write, write.made)
	r.courier.send(r.requests, write)
}

// amendClaim renews an acquisition whose answer is still to come.
func (r *run) amendClaim(c *campaign) {
	last, now := r.courier.newest.record, r.clock.now()
	record := renewal(last, last.Details, last.LeaseDuration, now.awake)
	write := request{op: opAcquire, before: &last, record: record, made: now, limit: r.config.Timing.dialAndAnswer()}
	r.sendWrite(&c.writes, write)
}

// overtake notes that the request under way is slow or lost. A write may have
// landed: nothing more is written before a read has told.
func (r *run) overtake(c *campaign) {
	slow := r.courier.newest
	c.overtaken++
	c.doubt, c.blind = slow.sent.awake, true
	r.outage.miss(slow.request, slow.sent)
	if slow.op == opAcquire {
		c.unsure, c.unsureAt = true, time.Now()
		c.claimAt = slow.sent.awake.Add(r.config.Timing.spacing())
	}
}

// answered takes in an answer and reports whether it won the lock.
func (r *run) answered(c *campaign, a answer) bool {
	now := time.Now()
	if a.op == opRead && !a.newest && errors.Is(a.err, context.Canceled) {
		return false
	}
	if a.refused() && !a.breaks {
		c.writes.drop(a.flight)
		return false // so did an earlier one
	}
	// One of the last term, whose end has not waited for it any longer, begins none.
	if a.op == opRenew || a.op == opRelease || a.op == opAcquire && !c.writes.pending(a) {
		r.answeredRelease(a)
		c.readFirst(now)
		return false
	}
	failed := a.err != nil && !a.conflict()
	switch {
	case !failed:
		c.doubt, c.overtaken = time.Time{}, 0
	case a.newest:
		c.doubt, c.blind = a.sent.awake, true
	}
	r.outage.take(a, now)
	if a.op == opAcquire || c.victory.cause != "" {
		if len(c.victory.attempts) == mostAttempts { // of an outage that may last
			c.victory.attempts = slices.Delete(c.victory.attempts, 1, 2)
		}
		c.victory.attempts = append(c.victory.attempts, a)
	}
	if a.op == opRead {
		r.answeredRead(c, a, now)
		return r.shows(a) && r.won(c, now)
	}
	if a.refused() {
		c.writes.drop(a.flight)
		c.readFirst(now)
		return false
	}
	r.noteWrite(a)
	if a.err == nil {
		r.observe(a.snapshot, now)
		return true
	}
	// Somebody else wrote, or nobody knows whether this write landed.
	c.readFirst(now)
	c.denied = nil
	if a.conflict() {
		c.writes.drop(a.flight)
		c.denied = &a.base
	}
	if failed {
		c.retryAt = now.Add(c.retries.next() + r.turnNow())
		c.claimAt = latest(a.sent.awake.Add(r.config.Timing.spacing()), now.Add(c.refusals.next()))
	}
	return false
}

// won reports whether a read has shown an acquisition of this candidacy's whose
// answer has not come: that is as good, see [run.confirm].
func (r *run) won(c *campaign, now time.Time) bool {
	w, ok := c.writes.landed(r.judge.newest)
	if !ok || !r.judge.exact || c.victory.cause == "" || r.clock.now().since(w.sent) >= r.config.Timing.RenewDeadline {
		return false
	}
	r.note(opWrite, nil)
	r.courier.forget()
	c.victory.attempts = append(c.victory.attempts, w.answer(r.judge.newest, now))
	return true
}

func (r *run) answeredRead(c *campaign, a answer, now time.Time) {
	if a.err != nil {
		r.note(opRead, a.err)
		if a.newest {
			c.wish = true
			c.retryAt = now.Add(c.retries.next() + r.turnNow())
		}
		return
	}
	r.note(opRead, nil)
	r.measure(a)
	c.retries.reset()
	news := r.observeRead(a, c.blind, now)
	if news || !a.sent.awake.Before(c.unsureAt) {
		c.unsure = false
	}
	if r.stands(c.denied) {
		c.claimAt = now.Add(c.refusals.next())
	}
	c.blind = false
	r.settle()
	if news {
		c.gaps = [2]time.Duration{} // the watch has not told
		c.news(now)
		r.follow()
	} else if a.fresh() {
		// One read answers for both, the silence and an expiry that is near.
		free, known := r.free()
		c.asked, c.prepared = true, known && !free.at.After(now.Add(c.lead+r.prepareEarly(free.headStart)))
	}
	if a.snapshot.Version.Exists() { // else the watch goes on from what is known, and leaves nothing out
		r.watcher.resume = a.snapshot.Version
	}
	if c.rewatch && !r.watcher.heard.After(a.sent.awake) {
		r.watcher.start(r.watching)
	}
}

// stands reports whether what a write was to replace is still the newest that is
// known, after it met a conflict and a read: nothing explains that, and a server
// that refuses all writes is not asked in haste.
func (r *run) stands(denied *locks.Version) bool {
	return denied != nil && r.judge.newest.Version.Number == denied.Number
}

// heard takes in an event of the watch.
func (r *run) heard(c *campaign, e locks.Event) {
	now := time.Now()
	if !r.hear(e, now) {
		return // a watch that lives is no sign of the lock's holder, nor of the API behind it
	}
	r.outage.hear(now)
	c.gaps = [2]time.Duration{c.gaps[1], now.Sub(c.heard)}
	c.news(now)
	r.follow()
}

// watchEnded notes that the watch is over.
func (r *run) watchEnded(err error) {
	r.watcher.end(err, time.Now(), r.turnNow())
	if !errors.Is(err, locks.ErrVersionExpired) {
		r.note(opWatch, err)
	}
}

// follow publishes who holds the lock, if that is somebody else than before. The
// own acquisition may be seen before its answer comes, which begins a term.
func (r *run) follow() {
	holder, details := r.judge.holder()
	delete(r.noShows, holder)
	before := r.board.read()
	if before.Holder == holder && before.HolderZone == details.Zone || holder == r.config.Candidate.Identity {
		return
	}
	t := r.board.publish(ChangeFollowing, nil, func(s *Status) { s.Holder, s.HolderZone = holder, details.Zone })
	if before.Holder != holder {
		r.log.Info("following", "holder", holder, "zone", details.Zone, "at", t.At)
	}
}

// withdraw ends a candidacy. A write on its way may win the lock: it is waited
// for, and the lock given back, since nobody will lead. So is one that was kept
// after a term, unless it runs out in any case.
func (r *run) withdraw(c *campaign) {
	writes, settled := r.courier.settle(r.patience())
	won, unknown := false, false
	if n := len(c.writes); n > 0 && c.unsure { // no read has told what became of the last one
		unknown = time.Since(c.writes[n-1].sent.awake) < r.config.Timing.LeaseDuration
	}
	for _, a := range writes {
		if a.op != opAcquire || a.conflict() {
			continue
		}
		if won, unknown = won || a.err == nil, unknown || a.err != nil; a.err == nil {
			r.observe(a.snapshot, time.Now())
		}
	}
	switch kept := r.kept; {
	case won, unknown:
		_ = r.release(0, "", locks.Handover{}, !won) // what it could not do, it has noted
	case kept != nil && settled && time.Since(kept.sent.awake) < r.config.Timing.LeaseDuration:
		_ = r.release(kept.term.Token, kept.trace, locks.Handover{}, true)
	}
}
