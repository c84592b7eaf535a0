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
	last, timing := won.won(), r.config.Timing
	again := sleep.Again{First: timing.RenewInterval / 10, Most: timing.RenewInterval}
	l := &leadership{
		run:     r,
		last:    last.request,
		wrote:   last.record,
		renewAt: rules.Latest(last.sent.awake.Add(timing.RenewInterval), time.Now().Add(r.afterWrite())),
		retries: retries(spacing(timing), min(timing.RenewInterval, max(timing.AttemptTimeout, spacing(timing)))),
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
	l.trust = newTrust(l.clock, l.exchange.trustedFrom(last), timing.RenewDeadline, timing.RenewInterval/4, func() { l.endWork(l.trustRanOut()) })
	l.term.trust = l.trust
	l.watchdog = newWorkWatchdog(l.work, l.config, l.term)
	l.workWatchdog.Store(l.watchdog)
	l.observer.Won(l.term.Token, last.record)
	l.keptTerm = nil
	if named := won.Handover.To; named != "" && named != l.term.Holder {
		l.noShows[named] = time.Now().Add(8 * timing.LeaseDuration) // its presence may stay for long after its node died
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
// checks the trust first, before it sends anything (S1). due does what is due in one state
// only.
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

// handle answers an event as all states of a term do, unless their files say otherwise.
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
