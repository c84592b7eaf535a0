// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/internal/requests"
	"github.com/zonelect/zonelect/locks"
)

// ErrHandedOver is the cause of a term's end if it was handed over: by HandOver, by a
// request on the record, or because its zone is evacuated.
var ErrHandedOver = errors.New("leadership handed over")

// Why a handover is refused, besides ErrNotLeading. The term goes on.
var (
	// ErrNoSuccessor: no known candidate could take over.
	ErrNoSuccessor = errors.New("no successor")
	// ErrSuccessorUnhealthy: there is a successor, but it is unhealthy.
	ErrSuccessorUnhealthy = errors.New("the successor is unhealthy")
	// ErrStopping: the term is ending already.
	ErrStopping = errors.New("the term ends already")
)

// ErrNotReleased says that a term has ended, or is about to end, without a release: the
// lease runs out, somebody else has the lock, or this candidate will reclaim it.
var ErrNotReleased = errors.New("the lock was not released")

// HandOver ends the term in good order and names the candidate that leads next: the
// work stops, the lock is released, and all others leave it to that candidate for
// Timing.Precedence. If the successor does not take it, they campaign as after any
// release.
//
// HandOver returns nil once the lock has been released, and does not wait for the
// successor. It fails at once, and the term goes on, with [ErrNotLeading],
// [ErrStopping], [ErrNoSuccessor] or [ErrSuccessorUnhealthy]. It fails later, as Resign
// does, with [ErrNotReleased] or the cause of ctx's end. Without Config.WatchPeers the
// elector does not know who campaigns: it accepts any Identity, and refuses a Zone. If
// the work calls HandOver, that does what a call of Resign does there.
func (e *Elector) HandOver(ctx context.Context, to locks.Successor) error {
	return e.stepDown(ctx, stepDownRequest{to: &to, over: make(chan error, 1)})
}

// stepDownRequest is a call of Resign or HandOver.
type stepDownRequest struct {
	to   *locks.Successor // nil: Resign
	over chan error
}

// afterTerm is the answer if the last term is over already.
func (f stepDownRequest) afterTerm(last *workWatchdog) error {
	if f.to == nil && last != nil && last.released.Load() {
		return nil
	}
	return ErrNotLeading
}

// notReleased is the answer for a term whose lock was not released.
func (f stepDownRequest) notReleased(why string, cause error) error {
	err := ErrNotReleased
	if f.to != nil {
		err = fmt.Errorf("the lock was not handed over: %w", err)
	}
	return fmt.Errorf("%w: %s: %w", err, why, cause)
}

const notInTime = "the work has not stopped in time, so that the lease runs out; if it was the work that asked for this, let it return instead of waiting"

// stepDown gives a stepDownRequest to the loop, and waits for the answer. If the work
// itself asks, it waits only until its term ends.
func (e *Elector) stepDown(ctx context.Context, f stepDownRequest) error {
	ended, _ := e.ended.Load().(chan struct{})
	if s := e.Status().State; s != status.StateLeader && s != status.StateAdopting && s != status.StateStopping {
		return ErrNotLeading
	}
	dog := e.workWatchdog.Load()
	inside := context.Background()
	if dog.runs(ctx) {
		inside = dog.work
	}
	for loop := e.stepDowns; ; loop, ended = nil, nil { // first give it to the loop, then wait
		select {
		case loop <- f:
		case <-ended:
			return f.afterTerm(dog)
		case err := <-f.over:
			return err
		case <-dog.late: // even if the loop hangs
			if loop != nil && f.to != nil {
				return fmt.Errorf("%w: %w", ErrStopping, context.Cause(dog.work))
			}
			return f.notReleased(notInTime, context.Cause(dog.work))
		case <-inside.Done():
			return releasedLater(inside)
		case <-ctx.Done():
			return cmp.Or(releasedLater(inside), context.Cause(ctx))
		}
	}
}

// releasedLater is the answer to work that asked for the end of its own term, or nil if the
// term has not ended yet.
func releasedLater(work context.Context) error {
	cause := context.Cause(work)
	if cause == nil {
		return nil
	}
	return fmt.Errorf("%w yet: that is done when the work returns, which has asked for it itself: %w", ErrNotReleased, cause)
}

// handleStepDown handles a call of Resign or HandOver during a term.
func (l *leadership) handleStepDown(f stepDownRequest) {
	if f.to == nil {
		l.stopWork(ErrResigned)
	} else if err := l.handOver(*f.to); err != nil {
		f.over <- err
		return
	}
	l.stepDownRequests = append(l.stepDownRequests, f)
	if l.overrun { // there is nothing to wait for
		l.answerStepDowns()
	}
}

// answerStepDowns tells every caller that asked for the end of the term whether the lock
// was released.
func (l *leadership) answerStepDowns() {
	for _, f := range l.stepDownRequests {
		var err error
		if !l.released {
			err = f.notReleased(l.unreleased(), l.cause)
		}
		f.over <- err
	}
	l.stepDownRequests = nil
}

// unreleased says why the lock of a term was not released.
func (l *leadership) unreleased() string {
	switch problem := l.report.problem(); {
	case l.unfinished():
		return "something of the work may go on, so that the lease runs out"
	case l.overrun:
		return notInTime
	case l.keptTerm == l:
		return "the term was lost meanwhile, and this candidate comes back for it"
	case l.observer.Holds() && problem != nil:
		return problem.Error()
	case l.observer.Holds():
		return "no release has been confirmed"
	}
	return "it was not this candidate's any more"
}

// handOver begins to hand a term over, or says why not.
func (l *leadership) handOver(to locks.Successor) error {
	if l.cause != nil {
		return fmt.Errorf("%w: %w", ErrStopping, l.cause)
	}
	next, err := l.chooseSuccessor(to)
	if err != nil {
		return err
	}
	l.successor = &to
	l.stopWork(fmt.Errorf("%w to %s", ErrHandedOver, cmp.Or(next, "whoever comes first")))
	return nil
}

// handover is what the release of a term says about who leads next. It chooses again,
// because the work may have taken long to stop.
func (l *leadership) handover() locks.Handover {
	if l.successor == nil {
		return locks.Handover{}
	}
	next, err := l.chooseSuccessor(*l.successor)
	if err != nil {
		l.report.log.Error(err, "the lock is handed over to nobody in particular")
	}
	if next == "" {
		return locks.Handover{}
	}
	return locks.Handover{To: next, Precedence: max(time.Millisecond, l.config.Timing.Precedence.Truncate(time.Millisecond))}
}

// chooseSuccessor chooses the candidate to hand over to, or returns why there is none. The
// choice is empty if the first candidate to come will do.
func (r *run) chooseSuccessor(to locks.Successor) (string, error) {
	switch {
	case to.Identity == r.me.Identity:
		return "", fmt.Errorf("%w: %s leads itself", ErrNoSuccessor, to.Identity)
	case len(to.Identity) > maxIdentity:
		return "", fmt.Errorf("%w: an identity has %d bytes at most", ErrNoSuccessor, maxIdentity)
	case r.peerUpdates == nil && to.Zone != "":
		return "", fmt.Errorf("%w: who campaigns in zone %s is not known to the leader: name an identity", ErrNoSuccessor, to.Zone)
	case r.peerUpdates == nil:
		return to.Identity, nil
	}
	fit, unfit := r.fit(to)
	if len(fit) == 0 {
		return "", unfit
	}
	return r.first(fit, r.takeover(rules.Freeing{Cause: status.CauseReleased, Holder: r.me.Identity, Details: rules.DetailsOf(r.me)})), nil
}

// fit returns the candidates that a handover may go to, by identity; or why
// there is none.
func (r *run) fit(to locks.Successor) (fit []locks.Peer, unfit error) {
	now := time.Now()
	away := rules.Evacuated(r.observer.LastRecord().Evacuated, now)
	where := "no other candidate is known"
	switch {
	case to.Identity != "":
		where = fmt.Sprintf("no candidate %s is known", to.Identity)
	case to.Zone != "":
		where += " in zone " + to.Zone
	case len(away) > 0:
		where += " outside the evacuated zones"
	}
	unfit = fmt.Errorf("%w: %s", ErrNoSuccessor, where)
	for _, p := range r.peers {
		switch {
		case p.Identity == r.me.Identity:
		case to.Identity != "" && p.Identity != to.Identity, to.Zone != "" && p.Zone != to.Zone:
		case to.Identity == "" && slices.Contains(away, p.Zone):
			if to.Zone != "" {
				unfit = fmt.Errorf("%w: zone %s is evacuated", ErrNoSuccessor, to.Zone)
			}
		case p.Unhealthy != "":
			unfit = fmt.Errorf("%w: %s: %s", ErrSuccessorUnhealthy, p.Identity, p.Unhealthy)
		case to.Identity == "" && now.Before(r.noShows[p.Identity]):
			unfit = fmt.Errorf("%w: %s did not take the lock when it was named before", ErrNoSuccessor, p.Identity)
		default:
			fit = append(fit, p)
		}
	}
	return fit, unfit
}

// answerRequest answers a request on the record. The next renewal removes the request.
func (l *leadership) answerRequest() {
	_, details := l.observer.Holder()
	if details.Request == "" {
		// Each request removes the last answer from the record, so the leader writes it
		// again.
		if l.staying != "" && l.refused == nil && details.Refused == "" {
			l.announce(l.staying)
		}
		return
	}
	request, err := requests.ParseHandover(details.Request)
	if err == nil && request.Holder != l.me.Identity {
		l.report.log.Info("ignoring a request for a handover: it asks another holder", "asks", request.Holder)
		return
	}
	if err == nil && l.successor != nil && *l.successor == request.Successor {
		return // it is granted, and stays on the record until something rewrites that
	}
	if err == nil {
		err = l.handOver(request.Successor)
	}
	if err != nil {
		l.refuseHandover(err)
	}
}

// refuseHandover reports that a request on the record was refused.
func (l *leadership) refuseHandover(why error) {
	l.announce(why.Error())
	l.report.refused(why)
}

// maxRefusal is how many bytes of a refusal are written on a record.
const maxRefusal = 512

// announce makes a renewal due at once that writes to the record why the term goes on.
func (l *leadership) announce(why string) {
	if len(why) > maxRefusal {
		why = strings.ToValidUTF8(why[:maxRefusal], "")
	}
	l.refused, l.renewAt = &why, time.Now()
}

// leaveEvacuatedZone hands the term over while the leader's zone is evacuated. If nobody
// can take over, the term goes on, and the elector publishes why.
func (l *leadership) leaveEvacuatedZone() {
	zone := l.me.Zone
	if l.cause != nil || zone == "" || !slices.Contains(rules.Evacuated(l.observer.LastRecord().Evacuated, time.Now()), zone) {
		l.stayOn("")
		return
	}
	err := fmt.Errorf("%w: who else campaigns is not known to the leader", ErrNoSuccessor)
	if l.peerUpdates != nil {
		err = l.handOver(locks.Successor{})
	}
	if err != nil {
		l.stayOn(fmt.Sprintf("zone %s is evacuated, and its candidate leads on: %v", zone, err))
		return
	}
	l.stayOn("")
}

// stayOn notes why the term goes on in an evacuated zone, if that has changed.
func (l *leadership) stayOn(why string) {
	if l.staying == why {
		return
	}
	l.staying = why
	if l.cause == nil { // a release removes it, without waiting for a renewal
		l.announce(why)
	}
	l.report.staying(why)
}
