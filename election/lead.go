// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
)

// leadership is one term, from its first acknowledged write to the return of
// the work. The elector's goroutine owns it.
type leadership struct {
	term    Term
	trust   *trust
	trace   string // traceparent of the term, to be noted on the record
	work    context.Context
	endWork context.CancelCauseFunc
	done    chan error // gets what the work returned
	dog     *watchdog
	working bool // the work has begun and not returned
	held    bool // the lock is held, and it is not proven yet that nobody else leads

	failover *failover
	adoption adoption
	workErr  error
	returned bool  // the work returned
	fatal    error // what Run returns: the guardian has left

	phase   phase
	cause   error // why the term ends; nil while it goes on
	overrun bool  // the work did not stop in time
	stopBy  time.Time

	farewells []farewell       // who waits for the end
	successor *locks.Successor // who shall lead next; nil if nobody said
	refused   *string          // to be put on the record; nil leaves what is there
	released  bool             // the lock was given up

	sent    moment         // of the last renewal that extended the trust
	renewAt time.Time      // when to send the next
	unsure  bool           // a read must tell how things are before the next write
	denied  *locks.Version // what the last renewal was to replace, if it met a conflict
	denials int            // conflicts since a renewal landed
	doubt   time.Time      // when the last request was sent, if it got no answer
	writes  sentWrites
	retries *backoff.ExponentialBackOff

	wrote   locks.Record // what was sent last
	mended  bool         // the record was mended at once, which has not helped yet
	mendAt  time.Time    // not before this is it mended at once again
	putBack bool         // a hand emptied the record: the name goes back on it
}

// phase is how far a term has come.
type phase int

const (
	leading  phase = iota
	stopping       // in good order: renewals go on while the work stops
	lost           // nothing is renewed any more
)

// lead runs the work for a term and keeps the lock meanwhile. It returns
// whether to campaign again, or else what Run returns.
func (r *run) lead(ctx context.Context, won victory) (again bool, err error) {
	l := r.begin(ctx, won)
	r.obey(l)    // it may have been withdrawn while the write that won was on its way
	r.inspect(l) // something may have happened since that write, and been heard already
	stop := ctx.Done()
	for {
		r.pulse.until(time.Now())
		if l.over() {
			return r.conclude(ctx, l)
		}
		until := r.proceedLeading(l)
		r.pulse.until(until)
		alarm, stopAlarm := sleep.After(time.Until(until))
		select {
		case <-stop:
			stop = nil
			r.stopWork(l, fmt.Errorf("%w: %w", ErrStopped, context.Cause(ctx)))
		case f := <-r.farewells:
			r.bid(l, f)
		case a := <-r.courier.answers:
			r.answeredLeader(l, r.courier.received(a))
		case e := <-r.watcher.events:
			r.heardLeading(l, e)
		case err := <-r.watcher.ended:
			r.watchEnded(err)
		case clearance := <-r.clearances:
			r.cleared(clearance)
			r.obey(l)
		case peers := <-r.met:
			r.meet(peers)
		case problem := <-r.checked:
			r.feel(problem)
		case err := <-r.left:
			l.fatal = abandoned(err)
			r.loseTerm(l, fmt.Errorf("%w: %w", ErrLost, l.fatal))
		case clearance := <-l.adoption.clearances:
			r.clearedTerm(l, clearance)
		case err := <-l.adoption.done:
			r.unadopted(l, err)
		case <-alarm:
		case l.workErr = <-l.done:
			r.workReturned(l)
		}
		stopAlarm()
	}
}

// over reports whether a term has ended, and all that it started too.
func (l *leadership) over() bool {
	return l.cause != nil && !l.working && l.adoption.ended
}

// begin starts the term that was won, and its work.
func (r *run) begin(ctx context.Context, won victory) *leadership {
	last := won.won()
	timing := r.config.Timing
	l := &leadership{
		sent:    last.sent,
		wrote:   won.newest().record,
		writes:  won.pending,
		renewAt: last.sent.awake.Add(timing.RenewInterval),
		retries: timing.renewRetries(),
		done:    make(chan error, 1),
		term: Term{
			Lock:     r.config.Lock.Describe(),
			Holder:   r.config.Candidate.Identity,
			Zone:     r.config.Candidate.Zone,
			Token:    cmp.Or(last.snapshot.Version.Token, last.snapshot.Version.Number),
			Began:    time.Now(),
			Cause:    won.cause,
			Previous: won.holder,
		},
	}
	r.courier.renewals()
	l.work, l.endWork = context.WithCancelCause(r.requests)
	l.trust = newTrust(r.clock, last.sent, timing.RenewDeadline, timing.RenewInterval/4, func() { l.endWork(r.ranOut()) })
	l.term.trust = l.trust
	l.dog = newWatchdog(l.work, r.config, l.term)
	r.dog.Store(l.dog)
	r.judge.token, r.judge.term, r.kept = l.term.Token, tenureOf(last.record), nil
	r.forfeits(false)
	if named := won.handover.To; named != "" && named != l.term.Holder {
		r.missed(named)
	}
	l.failover = r.telemetry.failover(r.requests, won, l.term)
	l.trace = l.failover.traceparent()
	l.adoption = adoption{ended: true, end: func(error) {}}
	if r.judge.unproven(time.Now()) {
		r.hold(l)
	} else {
		r.adopt(l)
	}
	return l
}

// startWork lets the work of a term begin.
func (r *run) startWork(l *leadership) {
	l.working = true
	l.failover.adopted(time.Now())
	t := r.board.publish(ChangeLeading, nil, func(s *Status) {
		s.State, s.Term, s.Holder, s.HolderZone = StateLeader, l.term, l.term.Holder, l.term.Zone
	})
	r.telemetry.leading(r.requests, true)
	r.log.Info("leading", "token", l.term.Token, "cause", string(l.term.Cause), "previous", l.term.Previous, "at", t.At)
	work := context.WithValue(l.work, termKey{}, l.term)
	r.beside.Go(l.dog.watch)
	go func() {
		err := errGoexit
		defer func() {
			if broken := recover(); broken != nil {
				panic(broken) // which ends the process: the elector must not take it for a return
			}
			close(l.dog.returned)
			l.done <- err
		}()
		l.failover.working(time.Now())
		if l.trust.left() <= 0 || l.work.Err() != nil { // this process did not get on for so long
			err = nil
			return
		}
		err = r.work(work, l.term)
	}()
}

// workReturned takes in that the work has returned: by itself, if nobody asked
// it to. The guardian's part ends with it.
func (r *run) workReturned(l *leadership) {
	l.working, l.returned = false, true
	r.catchUp(l)
	if l.cause == nil && l.trust.left() <= 0 {
		r.loseTerm(l, r.ranOut()) // the work heard of it before this loop did
	}
	if l.cause == nil {
		r.stopWork(l, ErrReturned)
	}
	if l.unfinished() {
		r.remains.Store(true)
	}
	if (l.unfinished() || closed(l.dog.late)) && !l.overrun {
		r.overrun(l)
	}
	l.adoption.end(l.cause)
}

// unfinished reports whether something of the work may go on that has returned.
func (l *leadership) unfinished() bool { return errors.Is(l.workErr, ErrUnfinished) }

// forfeits notes whether the record of the last term must run out before this
// candidate takes the lock again.
func (r *run) forfeits(must bool) {
	r.judge.forfeit = must
	r.forfeit.Store(must)
}

func (r *run) ranOut() error {
	return &LostError{Reason: fmt.Sprintf("no renewal was acknowledged within the RenewDeadline of %v", r.config.Timing.RenewDeadline), silence: true}
}

// proceedLeading does what is due in a term and returns when to look again at
// the latest. Trust is looked at first, and before anything is sent (S1).
func (r *run) proceedLeading(l *leadership) time.Time {
	now := time.Now()
	left := l.trust.left()
	if l.phase != lost && left <= 0 {
		r.loseTerm(l, r.ranOut())
	}
	r.leaveZone(l)
	if !l.overrun && l.cause != nil && !now.Before(l.stopBy) {
		r.overrun(l)
	}
	if r.watcher.due(now) || r.watchIsDeaf(l) {
		if !r.judge.unproven(now) { // else it is to tell what came before
			r.watcher.resume = r.judge.newest.Version
		}
		r.watcher.start(r.watching)
	}
	until := earliest(r.watcher.earlier(r.mindHealth(l, now)), r.await(l, now))
	if l.cause != nil && !l.overrun {
		until = earliest(until, l.stopBy)
	}
	if l.phase == lost {
		r.returnName(l)
		return until
	}
	until = earliest(until, now.Add(left))
	if l.overrun {
		return until
	}
	if due := r.nextRequest(l, now, left); now.Before(due) {
		return earliest(until, due)
	}
	switch {
	case r.amendEvery(l, now) > 0, r.goesOnAmending(l):
		r.amend(l)
	case r.courier.room():
		r.keep(l, left)
	default:
		return until
	}
	return earliest(until, r.nextRequest(l, now, left))
}

// mayAmend reports whether nothing is known by which an amendment would fail, or leave
// undone what a whole renewal mends.
func (r *run) mayAmend(l *leadership) bool {
	newest := r.judge.newest
	return !l.held && !l.unsure && !newest.Partial && newest.Version.Exists()
}

// amendEvery is [courier.amendEvery] for a term.
func (r *run) amendEvery(l *leadership, now time.Time) time.Duration {
	if !r.mayAmend(l) {
		return 0
	}
	return r.courier.amendEvery(r.config.Timing, now)
}

// goesOnAmending reports whether the next renewal amends the last one though that has
// been answered: it may be that no other connection than that of the amendments is
// open any more, and to open one takes as long as two answers.
func (r *run) goesOnAmending(l *leadership) bool {
	c := r.courier
	return c.warm && !c.busy() && c.amender != nil && r.mayAmend(l) && l.doubt.IsZero() && !l.changed(r.judge.newest.Record)
}

// amend renews the record of the write before, whose answer is perhaps still to come.
func (r *run) amend(l *leadership) {
	before := l.wrote
	write := r.nextRenewal(l, before, r.config.Timing.dialAndAnswer())
	write.before = &before
	r.write(l, write)
}

// nextRequest is when the next request is due: a renewal, or a read that overtakes
// the request under way. A read whose answer would come too late is none.
func (r *run) nextRequest(l *leadership, now time.Time, left time.Duration) time.Time {
	if !r.courier.busy() {
		return l.renewAt
	}
	if every := r.amendEvery(l, now); every > 0 {
		return r.courier.newest.sent.awake.Add(every)
	}
	due := r.courier.newest.sent.awake.Add(r.patience())
	if over := now.Add(left); over.Sub(due) <= max(r.courier.took, r.config.Timing.AttemptTimeout/8) {
		return over
	}
	return due
}

// watchIsDeaf reports whether renewals get through of which the watch says
// nothing: its connection is dead.
func (r *run) watchIsDeaf(l *leadership) bool {
	return r.watcher.running() && l.sent.awake.Sub(r.watcher.heard) > 2*(r.config.Timing.RenewInterval+r.courier.took)
}

func earliest(first time.Time, more ...time.Time) time.Time {
	for _, t := range more {
		if t.Before(first) {
			first = t
		}
	}
	return first
}

// keep sends what keeps the lock: a renewal, or a new record where the one
// there was has been deleted (S4); or first a read, where things are unclear. So
// they are while another request has no answer, which may be slow or never come:
// the read tells whether it landed, by a connection that lives. A write may take
// all the time that trust leaves. A read may take longer, for to end it would cost
// a connection that lives.
func (r *run) keep(l *leadership, left time.Duration) {
	base := r.judge.newest
	if overtaken := r.courier.newest; overtaken != nil {
		l.doubt, l.unsure, r.courier.warm = overtaken.sent.awake, true, false
	}
	if l.unsure {
		r.courier.send(r.requests, request{op: opRead, since: l.doubt, asOf: base.Version, limit: r.config.Timing.RenewDeadline})
		return
	}
	before := base.Record
	if !base.Version.Exists() {
		before = r.judge.renewal
	}
	r.renew(l, before, left)
}

// renew puts this term's next renewal in the place of the newest version. It
// keeps what before says that is not about the holder or its term.
func (r *run) renew(l *leadership, before locks.Record, limit time.Duration) {
	write := r.nextRenewal(l, before, limit)
	write.base, write.since = r.judge.newest.Version, l.doubt
	r.write(l, write)
}

// write sends a renewal.
func (r *run) write(l *leadership, write request) {
	l.wrote = write.record
	r.sendWrite(&l.writes, write)
}

// nextRenewal is this term's next renewal, see [run.renew].
func (r *run) nextRenewal(l *leadership, before locks.Record, limit time.Duration) request {
	before.AcquireTime, before.Transitions = l.wrote.AcquireTime, l.wrote.Transitions
	details := detailsOf(r.config.Candidate)
	details.Token, details.Trace, details.Refused = l.term.Token, l.trace, before.Details.Refused
	lease := r.config.Timing.LeaseDuration
	if l.held {
		details.Waits, lease = pastUnknown, max(lease, before.LeaseDuration)
	}
	if l.refused != nil {
		details.Refused = *l.refused
	}
	details.ProcessID, details.Nonce = r.config.marks(), r.judge.nonce
	now := r.clock.now()
	return request{op: opRenew, record: renewal(before, details, lease, now.awake), made: now, limit: limit}
}

// returnName puts the holder's name back on a record that a hand has emptied,
// while the work still stops: client-go takes an empty record at once. The term
// is over all the same, and is trusted no more.
func (r *run) returnName(l *leadership) {
	if !l.putBack || l.overrun || r.courier.writing() || !r.courier.room() {
		return
	}
	l.putBack = false
	if newest := r.judge.newest; newest.Version.Exists() && newest.Record.Holder == "" && r.judge.own() {
		r.renew(l, newest.Record, r.config.Timing.AttemptTimeout)
	}
}

// answeredLeader takes in the answer to a renewal or a read.
func (r *run) answeredLeader(l *leadership, a answer) {
	if l.phase == lost {
		if a.op == opRenew && a.err == nil {
			r.observe(a.snapshot, time.Now())
		}
		return
	}
	now := time.Now()
	switch {
	case a.op == opRead:
		r.note(opRead, a.err)
	case !l.writes.pending(a):
		return // it is known which write won
	case a.refused():
		if l.writes.drop(a.flight); a.breaks {
			l.unsure, l.renewAt, l.doubt = l.unsure || r.courier.replacing(), now, time.Time{}
		}
		return
	default:
		r.noteWrite(a)
	}
	switch {
	case a.conflict():
		l.writes.drop(a.flight)
		l.denials++
		l.unsure, l.renewAt, l.denied, l.doubt = true, now, &a.base, time.Time{}
	case a.err != nil:
		if a.newest {
			l.renewAt, l.doubt = latest(a.sent.awake.Add(l.retries.NextBackOff()), now), a.sent.awake
		}
	case a.op == opRead:
		r.readLeading(l, a, now)
	default:
		r.renewed(l, a, now)
	}
}

// readLeading takes in the answer to a read. A renewal that has not landed by now
// is sent once more.
func (r *run) readLeading(l *leadership, a answer, now time.Time) {
	l.doubt = time.Time{}
	news := r.observeRead(a, false, now)
	if !a.newest && !news {
		return
	}
	l.unsure = false
	if n := len(l.writes); n > 0 {
		l.renewAt = latest(l.renewAt, l.writes[n-1].sent.awake.Add(r.config.Timing.spacing()))
	}
	if news || !a.snapshot.Version.Exists() {
		r.inspect(l)
	}
	if r.stands(l.denied) || l.denials > 1 { // something conflicts each time: it is not answered in haste
		l.renewAt = latest(l.renewAt, now.Add(r.config.Timing.RenewInterval/10))
	}
	l.denied = nil
	if r.shows(a) {
		r.confirm(l, now)
	}
}

// confirm takes in that a read has shown a write of this term whose answer has not
// come: that is as good as the answer. It is not where a record has two parts, one
// of which may be older. Nor is a watch, on which nothing rests that must be true.
func (r *run) confirm(l *leadership, now time.Time) {
	if w, ok := l.writes.landed(r.judge.newest); ok && r.judge.exact && l.phase != lost {
		a := w.answer(r.judge.newest, now)
		r.noteWrite(a)
		r.renewed(l, a, now)
	}
}

// renewed takes in an acknowledged renewal. One that came so close to the one
// before that a client-go candidate cannot tell them apart extends nothing.
func (r *run) renewed(l *leadership, a answer, now time.Time) {
	timing := r.config.Timing
	l.retries.Reset()
	l.denials = 0
	r.observe(a.snapshot, now)
	l.writes = l.writes.after(a.sent)
	if len(l.writes) == 0 { // nothing that is under way can say more
		r.courier.forget()
		l.unsure, l.denied, l.doubt = false, nil, time.Time{}
	}
	if !l.held {
		r.judge.origin = origin{} // while this term is trusted nobody else could
	}
	if a.sent.since(l.sent) >= timing.spacing() {
		l.sent = a.sent
		l.trust.extend(a.sent, timing.RenewDeadline)
	}
	if l.refused != nil && a.record.Details.Refused == *l.refused {
		l.refused = nil
	}
	l.renewAt = a.sent.awake.Add(timing.RenewInterval)
	if !r.judge.newest.Version.Exists() || l.refused != nil {
		l.renewAt = now // that came after this renewal was sent (S4)
		return
	}
	r.mend(l)
}

// mend has the record written again where it is not what was written last. It does
// so at once the first time, for others go by it, or a second after the last time; as
// long as that does not help, renewals alone do it: admission may change each write. A request that is under
// way, or is to be repeated, mends it as well.
func (r *run) mend(l *leadership) {
	newest, now := r.judge.newest, time.Now()
	switch {
	case r.courier.busy(), !l.doubt.IsZero():
	case !newest.Partial && !l.changed(newest.Record):
		l.mended = false
	case !l.mended:
		what := "somebody changed the record"
		if newest.Partial {
			what = "part of the record is gone"
		}
		r.log.Info(what+": mending it", "token", l.term.Token)
		at := latest(now, l.mendAt)
		l.mended, l.mendAt, l.renewAt = true, at.Add(r.config.Timing.spacing()), earliest(l.renewAt, at)
	}
}

// changed reports whether somebody changed what was written last, but for what
// others write to ask for a handover.
func (l *leadership) changed(now locks.Record) bool {
	was := l.wrote
	was.Details.Request, was.Details.Refused = now.Details.Request, now.Details.Refused
	return !was.SameRenewal(now) || was.LeaseDuration != now.LeaseDuration || was.Details != now.Details
}

// heardLeading takes in an event of the watch during a term.
func (r *run) heardLeading(l *leadership, e locks.Event) {
	if r.hear(e, time.Now()) {
		r.inspect(l)
	}
}

// inspect holds the newest record against the term: another holder or a newer
// token ends it (S7), so does a record that somebody emptied (S3), on which the
// name goes back; a deleted one is made anew at once (S4), and what somebody
// changed is mended. What the record asks for is heeded.
func (r *run) inspect(l *leadership) {
	if l.phase == lost {
		return
	}
	now := r.judge.newest
	switch holder := now.Record.Holder; {
	case !now.Version.Exists():
		r.log.Info("the record was deleted: making it anew", "token", l.term.Token)
		l.renewAt = time.Now()
	case holder == "":
		l.putBack = true
		r.loseTerm(l, &LostError{Reason: "the record was emptied by somebody else", silence: true})
	case holder != l.term.Holder:
		r.loseTerm(l, &LostError{Reason: "somebody else took it", Holder: holder})
	case !r.judge.holds():
		r.loseTerm(l, &LostError{Reason: "another process of this identity took it: " + r.judge.stranger(), Holder: holder})
	default:
		r.mend(l)
		r.heed(l)
	}
}

// stopWork begins a stop in good order.
func (r *run) stopWork(l *leadership, cause error) {
	if l.phase == leading {
		l.phase = stopping
		r.endTerm(l, cause, r.config.Timing.StopTimeout)
		if !l.working {
			l.adoption.end(l.cause)
		}
	}
}

// loseTerm ends a term that is not trusted any more. A stop in good order
// that is under way becomes a loss, with its own time to stop.
func (r *run) loseTerm(l *leadership, cause error) {
	l.phase = lost
	l.trust.end()
	l.endWork(cause) // before all that may block
	l.adoption.end(cause)
	r.courier.cut(func(*flight) bool { return true })
	r.telemetry.leading(r.requests, false)
	r.endTerm(l, cause, r.config.Timing.StopGrace)
}

func (r *run) endTerm(l *leadership, cause error, patience time.Duration) {
	l.endWork(cause)
	stopBy := time.Now().Add(patience)
	if l.cause != nil {
		l.stopBy = earliest(l.stopBy, stopBy)
		return
	}
	l.cause, l.stopBy = cause, stopBy
	r.board.publish(ChangeStopping, cause, func(s *Status) { s.State = StateStopping })
	r.log.Info("stopping", "token", l.term.Token, "cause", cause.Error())
}

// overrun reports that the work did not stop in time. From now on nothing is
// renewed, and nothing will be released (S5). So those who asked for the end
// need not wait for more.
func (r *run) overrun(l *leadership) {
	l.overrun = true
	r.forfeits(true)
	r.beside.Go(l.dog.tell) // which may have been done
	r.telemetry.overrun(r.requests)
	r.board.publish(ChangeOverrun, l.cause, func(s *Status) { s.Overrun = true })
	r.answerAll(l)
	r.log.Error(l.cause, "the work has not stopped in time: the lease is left to run out", "token", l.term.Token)
}

// conclude ends a term of which nothing runs any more.
func (r *run) conclude(ctx context.Context, l *leadership) (again bool, err error) {
	defer r.answerAll(l)
	if l.returned {
		r.board.publish(ChangeStopped, l.cause, func(s *Status) { s.State, s.Overrun = StateFollower, false })
	}
	r.waiting(r.clearance.Why)
	r.sayHealth(r.fitness.problem)
	r.stay(l, "")
	r.telemetry.leading(r.requests, false)
	l.trust.end()
	r.giveUp(l, ctx.Err() == nil && !r.config.StopAtLoss)
	if errors.Is(l.cause, ErrUnhealthy) {
		r.fitness.backAt = time.Now().Add(r.config.Health.StayBack)
	}
	switch {
	case l.fatal != nil:
		return false, l.fatal
	case errors.Is(l.cause, ErrReturned), l.unfinished() && ctx.Err() != nil:
		return false, l.workErr
	case l.unfinished() && !r.config.CampaignUnfinished:
		return false, fmt.Errorf("%w, and %s: %w", l.workErr, unfinishedAdvice, l.cause)
	case ctx.Err() != nil:
		return false, r.realError(l.workErr, l.cause)
	case l.phase == lost && r.config.StopAtLoss:
		return false, l.cause
	}
	if err := r.realError(l.workErr, l.cause); err != nil {
		r.log.Error(err, "the work returned an error after its term")
	}
	return true, nil
}

// unheard reports whether the term was lost, and perhaps not the lock: nothing was
// heard of it for too long, or a hand emptied it.
func (l *leadership) unheard() bool {
	var lost *LostError
	return errors.As(l.cause, &lost) && lost.silence
}

// realError is what the work returned, unless that is the end of its context.
func (r *run) realError(err, cause error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, cause) {
		return nil
	}
	return err
}

// giveUp releases the lock after the work has returned, unless it took too
// long or somebody else has it. Whoever lost the term and not the lock, and
// campaigns again, keeps its name on it: that is what it comes back by.
func (r *run) giveUp(l *leadership, again bool) {
	writes, settled := r.courier.settle(r.patience())
	for _, a := range writes {
		r.answeredRelease(a)
	}
	if l.overrun || !settled || !r.judge.holds() {
		return
	}
	if again && l.unheard() {
		r.kept = l
		return
	}
	handover := r.handover(l)
	if l.released = r.release(l.term.Token, l.trace, handover, false); !l.released {
		return
	}
	l.dog.released.Store(true)
	// Who gives a term up leaves the next one to others, if there are any.
	r.holdOff = time.Now().Add(handover.Precedence + r.config.Timing.RenewInterval)
	r.board.publish(ChangeReleased, l.cause, func(s *Status) { s.Holder, s.HolderZone = "", "" })
	r.log.Info("released", "token", l.term.Token, "to", handover.To)
}
