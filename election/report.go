// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/go-logr/logr"

	"github.com/zonelect/zonelect/election/status"
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
	p.log.Info("a handover that was asked for is refused", "cause", why.Error())
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
	if errors.Is(cause, ErrUnfinished) {
		p.log.Info("the work says that part of it may go on: the lease is left to run out", "token", t.Token, "cause", cause.Error())
		return
	}
	p.telemetry.overran(p.ctx)
	p.log.Error(cause, "the work has not stopped in time: the lease is left to run out", "token", t.Token)
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
