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
	if due := l.nextRequest(now, left); now.Before(due) {
		return rules.Earliest(until, due)
	}
	if !l.requester.room() {
		return until
	}
	l.send(left)
	return rules.Earliest(until, l.nextRequest(now, left))
}

// nextRequest is when the next request is due: a renewal, or a read that overtakes the
// request under way. It leaves out a read whose answer would come too late.
func (l *leadership) nextRequest(now time.Time, left time.Duration) time.Time {
	if !l.requester.busy() {
		return l.renewAt
	}
	newest := l.requester.newest
	due := newest.overdueAt(l.patience(newest.writes()), now)
	if newest.writes() {
		due = rules.Earliest(due, l.askWhen(now))
	}
	over := now.Add(left)
	if shown := newest.asked; !shown.IsZero() { // it has not landed, and may be lost: another must have its chance
		due = rules.Earliest(due, shown.Add(over.Sub(shown)/2))
	}
	if over.Sub(due) <= max(l.requester.readTook, l.config.Timing.AttemptTimeout/8) {
		return over
	}
	return due
}

// send sends what keeps the lock: a renewal, or a new record if somebody deleted the old
// one (S4). If the state of the record is unclear, it sends a read first. The state is
// unclear while another request has no answer, which may be slow or never come: the read
// shows, on a live connection, whether that request landed. A write may take all the time
// that trust leaves. A read may take longer, because ending it would cost a live
// connection.
func (l *leadership) send(left time.Duration) {
	base := l.observer.Newest()
	if overtaken := l.requester.newest; overtaken != nil {
		l.unanswered = overtaken.sent.awake
		l.doubt(time.Now())
	}
	if l.unsure {
		l.requester.send(l.requests, request{op: opRead, since: l.unanswered, asOf: base.Version, limit: l.config.Timing.RenewDeadline})
		return
	}
	before := base.Record
	if !base.Version.Exists() {
		before = l.observer.LastRecord()
		if l.remakes.Made(time.Now()) {
			l.log.Info("the record was deleted: making it anew", "token", l.term.Token)
		}
	}
	l.renew(before, left)
}

// doubt makes a read due before the next write. No write is sent meanwhile, so each read that
// is sent from the first doubt on comes after all of them.
func (l *leadership) doubt(now time.Time) {
	if !l.unsure {
		l.unsure, l.unsureAt = true, now
	}
}

// renew replaces the newest version with this term's next renewal. It keeps everything in
// before that is not about the holder or its term.
func (l *leadership) renew(before locks.Record, limit time.Duration) {
	before.AcquireTime, before.Transitions = l.wrote.AcquireTime, l.wrote.Transitions
	details := rules.DetailsOf(l.config.Candidate)
	details.Token, details.Trace, details.Refused = l.term.Token, l.trace, before.Details.Refused
	lease := l.config.Timing.LeaseDuration
	if l.unverified {
		details.Waits, lease = pastUnknown, max(lease, before.LeaseDuration)
	}
	if l.refused != nil {
		details.Refused = *l.refused
	}
	details.ProcessID, details.Nonce = l.config.ProcessID(), l.nonce
	now, newest := l.clock.now(), l.observer.Newest()
	l.wrote = rules.Renewal(before, details, lease, now.awake)
	l.sendWrite(&l.writes, request{
		op: opRenew, base: newest.Version, since: l.unanswered, record: l.wrote, sent: now, limit: limit,
		beat: l.beatFor(newest.Record), before: l.sent,
	})
}

// beatFor is whether the lock's Renewer may renew the term instead of the write that was prepared,
// with the record as it is now. It may if nothing would change but the time. What a term notes
// first can wait: for a turn that does not come, or for a server that is so slow that its answer
// would cost the term.
func (l *leadership) beatFor(is locks.Record) beat {
	if l.requester.renewer == nil {
		return noBeat
	}
	noted := is
	if d := &noted.Details; d.Holder == l.wrote.Details.Holder {
		d.Token, d.Trace, d.ContainerID = l.wrote.Details.Token, l.wrote.Details.Trace, l.wrote.Details.ContainerID
	}
	switch {
	case onlyRenews(is, l.wrote), onlyRenews(noted, l.wrote) && l.requester.writeTook > fitsTwice(l.config.Timing):
		return beatFirst
	case onlyRenews(noted, l.wrote):
		return beatLater
	}
	return noBeat
}

// onlyRenews reports whether a record differs from another in its RenewTime alone.
func onlyRenews(was, is locks.Record) bool {
	if was.AcquireTime.UnixMicro() == is.AcquireTime.UnixMicro() {
		was.AcquireTime = is.AcquireTime
	}
	was.RenewTime = is.RenewTime
	return was == is
}

// answered handles the answer to a renewal or a read.
func (l *leadership) answered(a answer) {
	now := time.Now()
	switch {
	case a.op == opRead:
		l.report(opRead, a.err)
	case !l.writes.pending(a):
		return // it is known which write won
	default:
		l.reportWrite(a)
	}
	switch {
	case a.conflict():
		l.writes.drop(a.flight)
		l.denials++
		l.unsure, l.unsureAt, l.renewAt, l.denied, l.unanswered = true, now, now, &a.base, time.Time{}
	case a.err != nil:
		if a.newest {
			l.renewAt, l.unanswered = rules.Latest(a.sent.awake.Add(l.retries.NextBackOff()), now), a.sent.awake
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
	if a.newest {
		l.unanswered = time.Time{}
	}
	news := l.observeRead(a, false, now)
	if !a.newest && !news && !l.settles(a) {
		return
	}
	l.unsure = false
	l.requester.stopWaitingForRead()
	if n := len(l.writes); n > 0 {
		l.renewAt = rules.Latest(l.renewAt, l.writes[n-1].sent.awake.Add(spacing(l.config.Timing)))
	}
	if news || !a.snapshot.Version.Exists() {
		l.inspect()
	}
	if l.isStillNewest(l.denied) || l.denials > 1 { // something causes a conflict each time: do not hurry
		l.renewAt = rules.Latest(l.renewAt, now.Add(l.config.Timing.RenewInterval/10))
	}
	l.denied = nil
	if l.readShows(a) {
		l.confirm(now)
	}
	if !l.requester.busy() {
		l.requester.waitAgain(a.snapshot, l.patience(true), now)
	}
}

// settles reports whether a read that another has overtaken is as good as the newest: it was
// sent after the last write, and after the last conflict. What lands after a read, whichever it
// is, makes the next write a conflict.
func (l *leadership) settles(a answer) bool {
	return l.unsure && !a.sent.awake.Before(l.unsureAt)
}

// confirm extends the term if a read has shown that one of its writes landed although the
// answer has not come. That is as good as the answer, unless the record has two parts, one
// of which may be older. A watch is not as good, because nothing that must be true may
// depend on it.
func (l *leadership) confirm(now time.Time) {
	if w, ok := l.writes.landed(l.observer.Newest()); ok && l.observer.Exact() && !l.isLost() {
		a := w.landed(l.observer.Newest(), now)
		l.reportWrite(a)
		l.renewed(a, now)
	}
}

// renewed handles an acknowledged renewal. A renewal that came so close to the one before
// that a client-go candidate cannot tell them apart extends nothing.
func (l *leadership) renewed(a answer, now time.Time) {
	timing := l.config.Timing
	l.retries.Reset()
	l.denials = 0
	l.observe(a.snapshot, now)
	l.requester.supersede(l.observer.Newest())
	l.writes = l.writes.after(a.sent).open(l.observer.Newest())
	if len(l.writes) == 0 { // no request under way can tell more
		l.requester.stopWaiting()
		l.unsure, l.denied, l.unanswered = false, nil, time.Time{}
	}
	if !l.unverified {
		l.observer.Renewed() // while this term is trusted, nobody else could have had the lock
	}
	if a.departed.since(l.sent) >= spacing(timing) {
		l.sent = a.departed
		l.trust.extend(l.trustedFrom(a), timing.RenewDeadline)
	}
	if l.refused != nil && a.record.Details.Refused == *l.refused {
		l.refused = nil
	}
	l.renewAt = a.departed.awake.Add(timing.RenewInterval)
	if a.snapshot.Kept { // it waited for a beat, as the next will: in time for that
		l.renewAt = l.renewAt.Add(-timing.RenewInterval / 8)
	}
	l.renewAt = rules.Latest(l.renewAt, now.Add(l.afterWrite()))
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

// afterWrite is how long the answer to a write precedes the next one. An API server whose cache does
// not have the one yet conflicts with itself over the other, and asks its webhooks again. The way
// there and back, which a read takes as well, gives the cache as much time.
func (r *run) afterWrite() time.Duration {
	return max(0, r.config.Timing.RenewInterval/50-r.requester.readTook)
}

// mend makes a renewal due if the record is not what was written last. The first time it is
// due at once, because others go by the record, or a second after the last such renewal. As
// long as that does not help, only the regular renewals mend the record, because admission
// may change each write. A request that is under way, or is to be repeated, mends it as
// well.
func (l *leadership) mend() {
	newest, now := l.observer.Newest(), time.Now()
	switch {
	case l.requester.busy(), !l.unanswered.IsZero():
	case !newest.Partial && !l.changed(newest):
		l.mended = false
	case !l.mended:
		what := "somebody changed the record"
		if newest.Partial {
			what = "part of the record is gone"
		}
		l.log.Info(what+": mending it", "token", l.term.Token)
		at := rules.Latest(now, l.mendAt)
		l.mended, l.mendAt, l.renewAt = true, at.Add(spacing(l.config.Timing)), rules.Earliest(l.renewAt, at)
	}
}

// changed reports whether somebody changed what was written last, other than to ask for
// a handover. Of a record that is kept, others know renewals that the term did not write.
func (l *leadership) changed(newest locks.Snapshot) bool {
	was, now := l.wrote, newest.Record
	if newest.Kept {
		was.RenewTime = now.RenewTime
	}
	if newest.Kept && now.Details.Token == 0 { // a renewal without a write of its own: the note comes later
		was.Details.Token, was.Details.Trace = 0, now.Details.Trace
	}
	if newest.Kept && now.Details.ContainerID == "" { // as above: it may become known after the acquisition
		was.Details.ContainerID = ""
	}
	was.Details.Request, was.Details.Refused = now.Details.Request, now.Details.Refused
	return !was.SameRenewal(now) || was.LeaseDuration != now.LeaseDuration || was.Details != now.Details
}
