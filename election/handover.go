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

// ErrHandedOver is the cause of a term's end if it was handed over, because the record asks for it or
// the leader's zone is evacuated.
var ErrHandedOver = errors.New("leadership handed over")

// handOver begins to hand a term over, or says why not.
func (l *leadership) handOver(to locks.Successor) error {
	if l.cause != nil {
		return fmt.Errorf("the term ends already: %w", l.cause)
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
		l.report.log.Error(err, "handing over without a named successor")
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
		return "", fmt.Errorf("no successor: %s is the leader itself", to.Identity)
	case r.peerUpdates == nil && to.Zone != "":
		return "", fmt.Errorf("no successor: the leader does not know who campaigns in zone %s: name an identity", to.Zone)
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
	unfit = fmt.Errorf("no successor: %s", where)
	for _, p := range r.peers {
		switch {
		case p.Identity == r.me.Identity:
		case to.Identity != "" && p.Identity != to.Identity, to.Zone != "" && p.Zone != to.Zone:
		case to.Identity == "" && slices.Contains(away, p.Zone):
			if to.Zone != "" {
				unfit = fmt.Errorf("no successor: zone %s is evacuated", to.Zone)
			}
		case p.Unhealthy != "":
			unfit = fmt.Errorf("the successor is unhealthy: %s: %s", p.Identity, p.Unhealthy)
		case to.Identity == "" && now.Before(r.noShows[p.Identity]):
			unfit = fmt.Errorf("no successor: %s did not take the lock when it was named before", p.Identity)
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
	switch {
	case err != nil:
	case request.Holder != l.me.Identity:
		l.report.log.Info("ignoring a handover request: it names another holder", "asks", request.Holder)
	case l.successor != nil && *l.successor == request.Successor: // it is granted, and stays on the record until something rewrites that
	default:
		err = l.handOver(request.Successor)
	}
	if err != nil {
		l.announce(err.Error())
		l.report.refused(err)
	}
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
	zone, why := l.me.Zone, ""
	if l.cause == nil && zone != "" && slices.Contains(rules.Evacuated(l.observer.LastRecord().Evacuated, time.Now()), zone) {
		err := errors.New("no successor: the leader does not know the other candidates")
		if l.peerUpdates != nil {
			err = l.handOver(locks.Successor{})
		}
		if err != nil {
			why = fmt.Sprintf("zone %s is evacuated, but its candidate leads: %v", zone, err)
		}
	}
	l.stayOn(why)
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

var (
	// ErrNotLeading says that there is no term to end.
	ErrNotLeading = errors.New("not leading")
	// ErrNotReleased says that a term has ended without a release: the lease runs out,
	// somebody else has the lock, or this candidate will reclaim it.
	ErrNotReleased = errors.New("the lock was not released")
)

// resignation is a call of Resign. It gets the answer.
type resignation chan error

// Resign ends the term in good order: the work stops, the lock is released, and this
// candidate leaves the lock to others for one RenewInterval. Resign returns nil once
// the lock has been released. Otherwise it returns [ErrNotLeading] if there is no term,
// an error that wraps [ErrNotReleased] and says why, or the cause of ctx's end. It does
// not wait for work that has not stopped in time.
//
// The work itself should return instead of calling Resign. If it calls Resign with its own
// context, that ends with the term, and so does the call. With any other context the work
// waits for itself to return, until it is late.
func (e *Elector) Resign(ctx context.Context) error {
	ended, _ := e.ended.Load().(chan struct{})
	if s := e.Status().State; s == status.StateIdle || s == status.StateFollower {
		return ErrNotLeading
	}
	answer := make(resignation, 1)
	for loop := e.resignations; ; loop, ended = nil, nil { // first give it to the loop, then wait
		select {
		case loop <- answer:
		case <-ended:
			return ErrNotLeading
		case err := <-answer:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// resign handles a call of Resign during a term.
func (l *leadership) resign(r resignation) {
	l.stopWork(ErrResigned)
	l.resignations = append(l.resignations, r)
	if l.overrun { // there is nothing to wait for
		l.answerResignations()
	}
}

// answerResignations tells every caller of Resign whether the lock was released.
func (l *leadership) answerResignations() {
	var err error
	switch {
	case l.released:
	case l.overrun:
		err = errors.New("the work has not stopped in time, or part of it goes on, so that the lease runs out")
	case !l.observer.Holds():
		err = errors.New("this candidate no longer held it")
	default:
		err = cmp.Or(l.report.problem(), errors.New("the release was not confirmed"))
	}
	if err != nil {
		err = fmt.Errorf("%w: %w: %w", ErrNotReleased, err, l.cause)
	}
	for _, answer := range l.resignations {
		answer <- err
	}
	l.resignations = nil
}
