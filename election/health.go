// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
	"github.com/zonelect/zonelect/locks"
)

// Health says how a candidate knows whether it should lead, and what it does if it
// should not. It affects which candidate leads, and never whether one may. The zero
// Health has no Check, so the candidate always counts as healthy.
//
// An unhealthy follower leaves a free lock to the others for one more LeaseDuration,
// unless all candidates that it knows from Config.WatchPeers are unhealthy too.
//
// A leader that has been unhealthy for After ends its term in good order, with
// [ErrUnhealthy], and leaves the lock to others for two LeaseDurations, even if it is healthy
// again sooner, unless it knows that none of them is healthy. If it knows the other
// candidates and none of them is healthy, it leads on and says so in
// Status.Unhealthy, because an unhealthy leader does more than none. Without
// Config.WatchPeers it ends its term in any case. If no healthy candidate then takes the
// lock within a LeaseDuration, an unhealthy one does.
type Health struct {
	// Check returns nil if this candidate is healthy, and otherwise why it should not
	// lead, in the same words for the same reason. It runs in its own goroutine, one
	// call at a time. Its context ends after an Interval, and Check should then
	// return; the candidate is unhealthy until it has. The first call is made when Run
	// begins, and the candidate campaigns once that call has returned.
	Check func(ctx context.Context) error
	// Interval is the time from one call of Check to the next, and the limit of each
	// call. Zero means the RenewInterval.
	Interval time.Duration
	// After is how long a leader must be unhealthy before it gives up. Zero means the
	// LeaseDuration, so that it is replaced about as soon as a dead leader would be.
	After time.Duration
}

// ErrUnwilling may be wrapped by what Health.Check returns: this candidate is not to lead now, even if
// nobody else can. It does not campaign then, and that is not an error in its log.
var ErrUnwilling = errors.New("unwilling to lead")

func (h Health) withDefaults(t Timing) Health {
	h.Interval = cmp.Or(h.Interval, t.RenewInterval)
	h.After = cmp.Or(h.After, t.LeaseDuration)
	return h
}

func (h Health) validate() error {
	if h.Interval < 0 || h.After < 0 {
		return fmt.Errorf("%w: Health.Interval is %v and Health.After is %v: neither may be negative", ErrConfig, h.Interval, h.After)
	}
	return nil
}

// watch calls Check until ctx ends, and reports each result.
func (h Health) watch(ctx context.Context, tell func(error)) {
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, h.Interval)
		late := make(chan struct{})
		inTime := context.AfterFunc(limited, func() {
			defer close(late)
			tell(fmt.Errorf("the health check has not returned within %v", h.Interval))
		})
		if err := h.Check(limited); inTime() {
			tell(err)
			<-limited.Done()
		} else {
			<-late // that answer is as old as its limit, and only the next one counts
		}
		cancel()
	}
}

// sameText reports whether two errors say the same, or are both nil.
func sameText(a, b error) bool {
	return fmt.Sprint(a) == fmt.Sprint(b)
}

// fitness is what the loop knows about this candidate's health.
type fitness struct {
	known   bool      // the first check has returned
	problem error     // nil if it is healthy
	since   time.Time // when that began
	backAt  time.Time // no takeover before this: the lock was given up for a problem
}

// setHealth notes what a check has found.
func (r *run) setHealth(problem error) {
	f := &r.fitness
	if f.known && sameText(problem, f.problem) {
		return
	}
	if f.problem == nil {
		f.since = time.Now()
	}
	f.known, f.problem = true, problem
	r.report.unhealthy(problem)
}

// unfit reports whether this candidate must not campaign at all.
func (r *run) unfit() bool {
	return !r.fitness.known || errors.Is(r.fitness.problem, ErrUnwilling)
}

// healthyFirst returns when this candidate may take a lock that is free at a time. It
// leaves the lock to healthy candidates first, if there may be any.
func (r *run) healthyFirst(at time.Time) time.Time {
	well := func(p locks.Peer) bool { return p.Identity != r.me.Identity && p.Unhealthy == "" }
	if len(r.peers) > 0 && !slices.ContainsFunc(r.peers, well) {
		return at
	}
	if r.fitness.problem != nil {
		at = at.Add(r.config.Timing.LeaseDuration)
	}
	return rules.Latest(at, r.fitness.backAt)
}

// yieldIfUnhealthy ends the term of a leader that has been unhealthy for too long, and
// returns by when to look again.
func (l *leadership) yieldIfUnhealthy(now time.Time) time.Time {
	f := &l.fitness
	later := now.Add(time.Hour)
	if f.problem == nil || l.cause != nil {
		return later
	}
	fit, unfit := l.fit(locks.Successor{})
	due := rules.Latest(f.since, l.term.Began).Add(l.config.Health.After)
	switch {
	case now.Before(due):
		return due
	case len(l.peers) > 0 && len(fit) == 0 && !errors.Is(f.problem, ErrUnwilling):
		l.report.unhealthy(fmt.Errorf("%w; it leads on: %w", f.problem, unfit))
	default:
		l.successor = &locks.Successor{}
		l.stopWork(fmt.Errorf("%w: %w", ErrUnhealthy, f.problem))
	}
	return later
}
