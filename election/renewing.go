// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
	"github.com/zonelect/zonelect/locks"
)

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
		l.requester.send(l.requests, request{op: opRead, since: l.exchange.unanswered, asOf: base.Version, limit: l.config.Timing.RenewDeadline})
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
	l.requester.send(l.requests, request{
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
	if n := len(x.open); n > 0 {
		l.renewAt = rules.Latest(l.renewAt, x.open[n-1].sent.awake.Add(spacing(l.config.Timing)))
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
		l.report.log.Info(what+": mending it", "token", l.term.Token)
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
