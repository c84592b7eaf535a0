// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/zonelect/zonelect/election/internal/rules"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
)

// leadership is one term, from its first acknowledged write to the return of
// the work. The elector's goroutine owns it.
type leadership struct {
	*run
	term       Term
	trust      *trust
	trace      string // traceparent of the term, to be noted on the record
	work       context.Context
	endWork    context.CancelCauseFunc
	watchdog   *workWatchdog
	unverified bool // the lock is held, and it is not proven yet that nobody else leads

	failover *failover
	workErr  error
	returned bool  // the work has returned
	fatal    error // what Run returns: the guardian has left

	cause   error // why the term ends; nil while it goes on
	overrun bool  // the work did not stop in time
	stopBy  time.Time

	resignations []resignation    // the calls of Resign that wait for the end
	successor    *locks.Successor // who is to lead next; nil if this is not a handover
	refused      *string          // to be written to the record; nil keeps what is there
	staying      string           // why the term goes on in an evacuated zone; empty if it does not
	released     bool             // the lock was given up

	last    request                     // the write that extended the trust last
	renewAt time.Time                   // when to send the next
	retries *backoff.ExponentialBackOff // of renewals whose answers were lost

	wrote   locks.Record // what was sent last
	mended  bool         // the record was mended at once, without success so far
	mendAt  time.Time    // the record is not mended at once again before this
	remakes sleep.Again  // of the record, when it was deleted
	returns sleep.Again  // of the holder's name to it, when it was emptied
}

// over reports whether a term has ended, and everything that it started too. A guardian that does
// not return in time is given up if Run is to return.
func (l *leadership) over() bool {
	return l.cause != nil && !l.working() && (l.adoption.done == nil || l.overrun && l.ctx.Err() != nil)
}

// working reports whether the work has begun and not returned.
func (l *leadership) working() bool { return l.workDone != nil }

// begin begins the term that was won.
func (r *run) begin(won acquisition) {
	last, t := won.won, r.config.Timing
	again := sleep.Again{First: t.RenewInterval / 10, Most: t.RenewInterval}
	l := &leadership{
		run:     r,
		last:    last.request,
		wrote:   last.record,
		renewAt: rules.Latest(last.sent.awake.Add(t.RenewInterval), time.Now().Add(r.afterWrite())),
		retries: retries(spacing(t), min(t.RenewInterval, max(t.AttemptTimeout, spacing(t)))),
		remakes: again,
		returns: again,
		term: Term{
			Lock:     r.config.Lock.Describe(),
			Holder:   r.me.Identity,
			Zone:     r.me.Zone,
			Token:    cmp.Or(last.snapshot.Version.Token, last.snapshot.Version.Number),
			Began:    time.Now(),
			Cause:    won.Cause,
			Previous: won.Holder,
		},
	}
	l.exchange.supersede()
	l.exchange.begin()
	l.work, l.endWork = context.WithCancelCause(l.requests)
	l.trust = newTrust(l.clock, l.exchange.trustedFrom(last), t.RenewDeadline, t.RenewInterval/4, func() { l.endWork(l.trustRanOut()) })
	l.term.trust = l.trust
	l.watchdog = newWorkWatchdog(l.work, l.config, l.term)
	l.workWatchdog.Store(l.watchdog)
	l.observer.Won(l.term.Token, last.record)
	l.keptTerm = nil
	if named := won.Handover.To; named != "" && named != l.term.Holder {
		l.noShows[named] = time.Now().Add(8 * t.LeaseDuration) // its presence may stay for long after its node died
	}
	l.failover = l.report.telemetry.failover(l.report.ctx, won, l.term)
	l.trace = l.failover.traceparent()
	l.adoption = adoption{end: func(error) {}}
	if l.observer.Unproven(time.Now()) {
		l.startVerifying()
	} else {
		l.startAdoption()
	}
	l.inspect() // the permission may have been withdrawn, or somebody have written, since the winning write was sent
}

// keep does what is due in a term whose lock is kept, and returns by when to look again. It
// checks the trust first, before it sends anything (S1). The states verifying, adopting, leading
// and stopping call it; due does what is due in one of them only.
func (l *leadership) keep(due func(now time.Time) time.Time) time.Time {
	now, left := time.Now(), l.trust.left()
	if left <= 0 {
		l.lose(l.trustRanOut())
		return lost{l}.due(now)
	}
	until := due(now)
	l.keepWatching(now)
	if l.cause != nil && !l.overrun {
		until = rules.Earliest(until, l.stopBy)
	}
	return rules.Earliest(l.watcher.earlier(until), l.keepLock(now, left))
}

// keepWatching makes sure that a watch runs and is alive.
func (l *leadership) keepWatching(now time.Time) {
	if !l.watcher.due(now) && !l.watchIsDeaf() {
		return
	}
	if !l.observer.Unproven(now) { // else the watch must show what came before
		l.watcher.resume = l.observer.Newest().Version
	}
	l.watcher.start(l.watching)
}

// watchIsDeaf reports whether the watch does not report renewals that land, because its
// connection is dead.
func (l *leadership) watchIsDeaf() bool {
	return l.watcher.running() && l.last.sent.awake.Sub(l.watcher.heard) > 2*(l.config.Timing.RenewInterval+l.exchange.writeTook)
}

// handle answers an event as all states of a term do, unless they have a method of their own.
func (l *leadership) handle(e event) {
	switch e := e.(type) {
	case stopWanted:
		l.stopWork(fmt.Errorf("%w: %w", ErrStopped, context.Cause(l.ctx)))
	case resignation:
		l.resign(e)
	case answer:
		l.answered(e)
	case locks.Event:
		if l.observeEvent(e, time.Now()) {
			l.inspect()
		}
	case campaignPermission:
		l.setPermission(e.Permission)
		l.stopIfWithdrawn()
	case guardianGone:
		l.fatal = abandoned(e.err)
		l.lose(fmt.Errorf("%w: %w", ErrLost, l.fatal))
	case adoptionOver:
		l.adoptionEnded(e)
	case workOver:
		l.workReturned(e.err)
	default:
		l.run.handle(e)
	}
}

// inspect compares the newest record with the term. Another holder or a newer token ends
// the term (S7). So does a record that somebody emptied (S3), and the leader then puts its
// name back. It recreates a deleted record at once (S4), or after a pause if something deletes it
// again and again. It mends what somebody changed, and answers a request on the record.
func (l *leadership) inspect() {
	if why := l.observer.Lost(); why != "" {
		holder, _ := l.observer.Holder()
		l.lose(&lostError{reason: why, holder: holder})
		return
	}
	l.stopIfWithdrawn()
	if !l.observer.Newest().Version.Exists() {
		l.renewAt = rules.Latest(time.Now(), l.remakes.Due())
		return
	}
	l.mend()
	l.answerRequest()
}

// keepLock renews as long as the work may go on, and returns by when to look again.
func (l *leadership) keepLock(now time.Time, left time.Duration) time.Time {
	until := now.Add(left)
	if l.overrun {
		return until
	}
	do, at := l.exchange.next(now, wants{write: l.renewAt, read: l.renewAt, until: until})
	if do != wait {
		l.perform(do, left)
		return now
	}
	return rules.Earliest(until, at)
}

// perform sends the request that next decided on. A write keeps the lock: it is a renewal, or a new
// record if somebody deleted the old one (S4). It may take all the time that trust leaves. A read may
// take longer, because ending it would cost a live connection.
func (l *leadership) perform(do step, left time.Duration) {
	base := l.observer.Newest()
	if do == overtake {
		l.exchange.overtake()
	}
	if do != write {
		l.send(request{op: opRead, since: l.exchange.unanswered, asOf: base.Version, limit: l.config.Timing.RenewDeadline})
		return
	}
	before := base.Record
	if !base.Version.Exists() {
		before = l.observer.LastRecord()
		if l.remakes.Made(time.Now()) {
			l.report.log.Info("the record was deleted: recreating it", "token", l.term.Token)
		}
	}
	l.renew(before, left)
}

// renew replaces the newest version with this term's next renewal. It keeps everything in
// before that is not about the holder or its term.
func (l *leadership) renew(before locks.Record, limit time.Duration) {
	before.AcquireTime, before.Transitions = l.wrote.AcquireTime, l.wrote.Transitions
	details := rules.DetailsOf(l.me)
	details.Token, details.Trace, details.Refused = l.term.Token, l.trace, before.Details.Refused
	lease := l.config.Timing.LeaseDuration
	if l.unverified {
		details.Waits, lease = rules.PastUnknown, max(lease, before.LeaseDuration)
	}
	if l.refused != nil {
		details.Refused = *l.refused
	}
	details.ProcessLock, details.Nonce = l.config.ProcessLock(), l.nonce
	now, newest := l.clock.now(), l.observer.Newest()
	l.wrote = rules.Renewal(before, details, lease, now.awake)
	l.send(request{
		op: opRenew, base: newest.Version, since: l.exchange.unanswered, record: l.wrote, sent: now, limit: limit,
	})
}

// answered handles the answer to a renewal or a read.
func (l *leadership) answered(a answer) {
	now := time.Now()
	if a.known {
		return
	}
	l.report.answer(a)
	switch {
	case a.conflict():
		l.exchange.refused(a)
		l.renewAt = now
	case a.err != nil:
		if a.newest {
			l.renewAt = rules.Latest(a.sent.awake.Add(l.retries.NextBackOff()), now)
		}
		if a.snapshot.Version.Exists() && l.observe(a.snapshot, now) { // not what was written
			l.inspect()
		}
	case a.op == opRead:
		l.readLeading(a, now)
	default:
		l.renewed(a, now)
	}
}

// readLeading handles the answer to a read. A renewal that has not landed by now is sent
// again. If another read overtook this one, its connection may be dead: the renewal goes over
// one that lives.
func (l *leadership) readLeading(a answer, now time.Time) {
	x := l.exchange
	news := l.observeRead(a, false, now)
	if !x.counts(a, news) {
		return
	}
	if news || !a.snapshot.Version.Exists() {
		l.inspect()
	}
	if x.isStillNewest() || x.denials > 1 { // something causes a conflict each time: do not hurry
		l.renewAt = rules.Latest(l.renewAt, now.Add(l.config.Timing.RenewInterval/10))
	}
	if f := x.shownLanding(a); f != nil && !l.isLost() {
		landed := f.landed(x.observer.Newest(), now)
		l.report.answer(landed)
		l.renewed(landed, now)
	}
	x.waitAgain(a.snapshot, now)
}

// renewed handles an acknowledged renewal.
func (l *leadership) renewed(a answer, now time.Time) {
	timing := l.config.Timing
	l.retries.Reset()
	l.observe(a.snapshot, now)
	l.exchange.acknowledged(a)
	if l.trust.left() <= 0 {
		return // somebody else may have had the lock, if this renewal created the record
	}
	if !l.unverified {
		l.observer.Renewed()
	}
	if l.tellsApart(a) {
		l.last = a.request
		l.trust.extend(l.exchange.trustedFrom(a), timing.RenewDeadline)
	}
	if l.refused != nil && a.record.Details.Refused == *l.refused {
		l.refused = nil
	}
	l.renewAt = rules.Latest(a.sent.awake.Add(timing.RenewInterval), now.Add(l.afterWrite()))
	switch { // the deletion or refusal came after this renewal was sent
	case !l.observer.Newest().Version.Exists():
		l.renewAt = rules.Latest(now, l.remakes.Due())
		return
	case l.refused != nil:
		l.renewAt = now
		return
	}
	l.stopIfWithdrawn() // the answer may be the first to show that the record is barred
	l.mend()
}

// tellsApart reports whether others can tell a renewal from the last one that extended the trust.
// client-go's candidates may compare whole seconds, whatever this clock was set to. For a shorter
// RenewInterval the law has a second for that.
func (l *leadership) tellsApart(a answer) bool {
	if interval := l.config.Timing.RenewInterval; interval < time.Second {
		return a.sent.since(l.last.sent) >= interval
	}
	return a.record.RenewTime.Unix() != l.last.record.RenewTime.Unix()
}

// afterWrite is how long the answer to a write precedes the next one. An API server whose cache does
// not have the one yet conflicts with itself over the other, and asks its webhooks again. The way
// there and back, which a read takes as well, gives the cache as much time.
func (r *run) afterWrite() time.Duration {
	return max(0, r.config.Timing.RenewInterval/50-r.exchange.readTook)
}

// mend makes a renewal due if the record is not what was written last. The first time it is
// due at once, because others go by the record, or a second after the last such renewal. As
// long as that does not help, only the regular renewals mend the record, because admission
// may change each write. A request that is under way, or is to be repeated, mends it as
// well.
func (l *leadership) mend() {
	newest, now := l.observer.Newest(), time.Now()
	switch {
	case l.exchange.busy(), !l.exchange.unanswered.IsZero():
	case !newest.Partial && !l.changed(newest):
		l.mended = false
	case !l.mended:
		what := "somebody changed the record"
		if newest.Partial {
			what = "part of the record is gone"
		}
		l.report.log.Info(what+": repairing it", "token", l.term.Token)
		at := rules.Latest(now, l.mendAt)
		l.mended, l.mendAt, l.renewAt = true, at.Add(spacing(l.config.Timing)), rules.Earliest(l.renewAt, at)
	}
}

// changed reports whether somebody changed what was written last, other than to ask for
// a handover.
func (l *leadership) changed(newest locks.Snapshot) bool {
	was, now := l.wrote, newest.Record
	was.Details.Request, was.Details.Refused = now.Details.Request, now.Details.Refused
	return !was.SameRenewal(now) || was.LeaseDuration != now.LeaseDuration || was.Details != now.Details
}
