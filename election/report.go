// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
)

// reporter is told what happens during a Run. It publishes that as the status, and tells it to
// subscribers, the log, the metrics and the tracer. It decides nothing. The loop owns it.
type reporter struct {
	*board
	telemetry *telemetry
	log       logr.Logger
	ctx       context.Context     // of what is measured
	problems  map[operation]error // by kind
}

func newReporter(ctx context.Context, e *Elector) *reporter {
	log := e.config.Logger
	if log.GetSink() == nil {
		log = logr.FromContextOrDiscard(ctx)
	}
	return &reporter{
		board: &e.board, telemetry: e.telemetry, ctx: ctx, problems: map[operation]error{},
		log: log.WithValues("lock", e.config.Lock.Describe().String(), "identity", e.config.Candidate.Identity),
	}
}

// campaigning reports that a candidacy begins.
func (p *reporter) campaigning() {
	p.update(func(s *Status) { s.State, s.Overrun = status.StateFollower, false })
}

// following reports who holds the lock, if that has changed.
func (p *reporter) following(holder, zone string) {
	before := p.read()
	if before.Holder == holder && before.HolderZone == zone {
		return
	}
	t := p.publish(status.ChangeFollowing, nil, func(s *Status) { s.Holder, s.HolderZone = holder, zone })
	if before.Holder != holder {
		p.log.Info("following", "holder", holder, "zone", zone, "at", t.At)
	}
}

// waiting reports what this candidate waits for, if that has changed.
func (p *reporter) waiting(why string) {
	if p.read().Waiting == why {
		return
	}
	p.publish(status.ChangeWaiting, nil, func(s *Status) { s.Waiting = why })
	if why != "" {
		p.log.Info("waiting", "for", why)
	}
}

// staying reports why the term goes on in an evacuated zone.
func (p *reporter) staying(why string) {
	p.publish(status.ChangeStaying, nil, func(s *Status) { s.Staying = why })
	if why != "" {
		p.log.Info("staying in an evacuated zone", "why", why)
	}
}

// unhealthy reports why the candidate should not lead, if that has changed.
func (p *reporter) unhealthy(why error) {
	if sameText(why, p.read().Unhealthy) {
		return
	}
	p.publish(status.ChangeHealth, nil, func(s *Status) { s.Unhealthy = why })
	switch {
	case why == nil:
		p.log.Info("healthy again")
	case errors.Is(why, ErrUnwilling):
		p.log.Info("not campaigning", "cause", why.Error())
	default:
		p.log.Error(why, "unhealthy")
	}
}

// result reports the result of an operation: a problem when it is new, and again when it is gone.
func (p *reporter) result(op operation, err error) {
	before := p.problems[op.kind()]
	if err == nil && before == nil || err != nil && before != nil && wording(err) == wording(before) {
		return
	}
	p.problems[op.kind()] = err
	problem := func(s *Status) { s.Problem = p.problem() }
	if err == nil {
		p.publish(status.ChangeResolved, nil, problem)
		p.log.Info("problem resolved", "operation", string(op))
		return
	}
	p.publish(status.ChangeProblem, nil, problem)
	p.log.Error(err, "cannot use the lock", "operation", string(op))
}

// answer reports the result of a request. A conflict is not a problem, because candidates learn of each
// other that way.
func (p *reporter) answer(a answer) {
	if a.op == opRenew {
		p.telemetry.renewed(p.ctx, a.end.Sub(a.sent.awake), a.err)
	}
	if a.conflict() {
		a.err = nil
	}
	p.result(a.op, a.err)
}

// problem is what keeps the elector from using the lock; nil if nothing does.
func (p *reporter) problem() error {
	return errors.Join(p.problems[opRead], p.problems[opWrite], p.problems[opWatch])
}

// wording is an error's text without the local address of a connection, which
// another connection does not share.
func wording(err error) string {
	var network *net.OpError
	if errors.As(err, &network) && network.Source != nil {
		return strings.ReplaceAll(err.Error(), network.Source.String(), "")
	}
	return err.Error()
}

// seen reports the UID of the record's object.
func (p *reporter) seen(uid string) { p.update(func(s *Status) { s.LockUID = uid }) }

// adopting reports that the lock is held, and that the work may not begin yet. While somebody else may still
// lead, the status has no term that others could act on.
func (p *reporter) adopting(t Term, others bool) {
	p.publish(status.ChangeAdopting, nil, func(s *Status) {
		s.State, s.Holder, s.HolderZone = status.StateAdopting, t.Holder, t.Zone
		if !others {
			s.Term = t
		}
	})
}

// leading reports that the work of a term begins.
func (p *reporter) leading(t Term, f *failover) {
	f.adopted()
	at := p.publish(status.ChangeLeading, nil, func(s *Status) {
		s.State, s.Term, s.Holder, s.HolderZone = status.StateLeader, t, t.Holder, t.Zone
	}).At
	p.telemetry.leading(p.ctx, t.trust)
	p.log.Info("leading", "token", t.Token, "cause", string(t.Cause), "previous", t.Previous, "at", at)
}

// refused reports that a request on the record was refused.
func (p *reporter) refused(why error) {
	p.publish(status.ChangeRefused, why, func(*Status) {})
	p.log.Info("handover request refused", "cause", why.Error())
}

// untrusted reports that a term is not trusted any more.
func (p *reporter) untrusted() { p.telemetry.leading(p.ctx, nil) }

// stopping reports that a term ends.
func (p *reporter) stopping(t Term, cause error) {
	p.publish(status.ChangeStopping, cause, func(s *Status) { s.State = status.StateStopping })
	p.log.Info("stopping", "token", t.Token, "cause", cause.Error())
}

// overran reports that the work did not stop in time, or that part of it may go on by its own word.
func (p *reporter) overran(t Term, cause error) {
	p.publish(status.ChangeOverrun, cause, func(s *Status) { s.Overrun = true })
	const consequence = ": the lock is not released, and the lease runs out"
	if errors.Is(cause, ErrUnfinished) {
		p.log.Info("part of the work may still be running"+consequence, "token", t.Token, "cause", cause.Error())
		return
	}
	p.telemetry.overran(p.ctx)
	p.log.Error(cause, "the work has not stopped in time"+consequence, "token", t.Token)
}

// stopped reports that the work of a term has returned.
func (p *reporter) stopped(cause error) {
	p.publish(status.ChangeStopped, cause, func(s *Status) { s.State, s.Overrun = status.StateFollower, false })
}

// termOver reports that a term is over, with its work and its guardian's part.
func (p *reporter) termOver(cause error) {
	p.untrusted()
	p.telemetry.termEnded(p.ctx, cause)
}

// released reports that the lock of a term was given up.
func (p *reporter) released(t Term, cause error, to string) {
	p.publish(status.ChangeReleased, cause, func(s *Status) { s.Holder, s.HolderZone = "", "" })
	p.log.Info("released", "token", t.Token, "to", to)
}

// ended reports that Run returns.
func (p *reporter) ended() {
	p.publish(status.ChangeEnded, nil, func(s *Status) { s.State, s.Unhealthy = status.StateIdle, nil })
}

// Status is what an elector knows at one moment. It is a copy, which does not change.
type Status struct {
	Lock     locks.Description
	LockUID  string // of the object that stores the newest record; empty before the first
	Identity string // of this candidate
	State    status.State
	// Holder and HolderZone are the identity that holds the lock and its zone, as far
	// as this candidate has heard, which may be late. They are empty if nobody holds
	// it, or if that is unknown.
	Holder     string
	HolderZone string
	// Term is the newest term of this candidate, or the zero Term before the first.
	// Term.TrustedFor says whether it is still trusted.
	Term Term
	// Overrun reports that the work of Term has not stopped in time, see
	// ChangeOverrun. It is false again once the work has returned.
	Overrun bool
	// Waiting is what must happen before this candidate may campaign or lead, in the
	// words of the lock's guardian or of the elector. Empty if nothing must.
	Waiting string
	// Unhealthy is why this candidate should not lead, by its own check. It also says so
	// if the candidate leads nevertheless. Nil if it is healthy.
	Unhealthy error
	// Staying is why this candidate leads on although its zone is evacuated. Empty if
	// the zone is not, or if somebody else can take over.
	Staying string
	// Problem is what keeps the elector from reading, writing or watching the lock.
	// Nil if nothing does.
	Problem error
}

// Transition is one change of an elector, with the status right after it.
type Transition struct {
	Change status.Change
	At     time.Time // wall clock
	// Cause is why the term ended, for ChangeStopping, ChangeStopped, ChangeReleased
	// and ChangeOverrun. For ChangeRefused it is why the term goes on. Otherwise nil.
	Cause  error
	Status Status
}

// board is where the loop publishes, and outsiders read and subscribe. The mutex guards
// only the fields: no outside code runs under it.
type board struct {
	mu     sync.Mutex
	status Status
	newest *published
}

// published is a transition in a list that each subscriber reads at its own pace.
type published struct {
	Transition
	next     *published
	followed chan struct{} // closed once next is set
}

func (b *board) read() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status
}

// publish changes the status, and appends the transition to the list.
func (b *board) publish(c status.Change, cause error, change func(*Status)) Transition {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.status)
	t := Transition{Change: c, At: time.Now(), Cause: cause, Status: b.status}
	b.newest.next = &published{Transition: t, followed: make(chan struct{})}
	close(b.newest.followed)
	b.newest = b.newest.next
	return t
}

// update changes the status without a transition.
func (b *board) update(change func(*Status)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.status)
}

// Subscribe returns a channel that gets every transition from now on, in order, and is closed after
// ctx ends. A slow reader delays nobody and misses nothing; what it has not read yet stays in
// memory.
func (e *Elector) Subscribe(ctx context.Context) <-chan Transition {
	out := make(chan Transition)
	e.board.mu.Lock()
	defer e.board.mu.Unlock()
	last := e.board.newest
	go func() {
		defer close(out)
		for {
			select {
			case <-last.followed:
				last = last.next
			case <-ctx.Done():
				return
			}
			select {
			case out <- last.Transition:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}
