// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package shield

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/zonelect/zonelect/internal/legacypods"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/multilock/internal/candidate"
	"github.com/zonelect/zonelect/locks/multilock/shield/internal/shieldmap"
	"github.com/zonelect/zonelect/locks/ownerref"
)

const (
	// pollInterval is how often a holder that waits for legacy pods counts them.
	pollInterval = 500 * time.Millisecond
	// watchSilence is how long a watch may be silent while this candidate leads:
	// an API server sends a bookmark about every minute.
	watchSilence = 90 * time.Second
)

// keeper keeps the shield for one call of Attend. Its goroutine owns the state. Requests
// run in other goroutines, one at a time, and so does the watch.
type keeper struct {
	state  state
	shield *Lock
	permit func(locks.Permission)
	said   locks.Permission

	term     *tenure
	finished <-chan struct{} // closed when the term ends; nil once that has been handled
	waiting  string

	doing   action            // whose requests are under way
	early   []ownerref.Record // what the watch showed while a shield was being put up
	results chan result
	limits  map[action]*rawapi.Limit
	retries *backoff.ExponentialBackOff
	retryAt time.Time
	failing action // the action that failed last and has not succeeded since
	trouble string // why

	remakes sleep.Again // of the shield, when it was deleted

	watch        watch
	watchRetries *backoff.ExponentialBackOff
	watchAt      time.Time // start no watch before
	wait         sync.WaitGroup
}

// result is the outcome of an action.
type result struct {
	do      action
	sent    time.Time
	record  ownerref.Record
	counted legacypods.Count
	of      ownerref.Record // the newest record when it was sent
	err     error
}

func newKeeper(s *Lock, permit func(locks.Permission)) *keeper {
	return &keeper{
		shield: s,
		state: state{
			mode: s.config.Mode,
			poll: pollInterval, recheck: s.config.Timing.RenewInterval,
			neverWatched: true,
		},
		permit:  permit,
		results: make(chan result, 1),
		retries: sleep.Delays(s.config.Timing.RenewInterval/10, s.config.Timing.RenewInterval),
		limits:  map[action]*rawapi.Limit{},

		remakes: sleep.Again{First: s.config.Timing.RenewInterval / 10, Most: s.config.Timing.RenewInterval},

		// A delay varies by half, so it is a RenewInterval at most.
		watchRetries: sleep.Delays(s.config.Timing.RenewInterval/10, s.config.Timing.RenewInterval*2/3),
	}
}

// run keeps the shield until ctx ends or this candidate's pod is gone.
func (k *keeper) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		k.wait.Wait()
		if k.term != nil {
			k.term.done <- err
		}
	}()
	podGone := make(chan error, 1)
	k.wait.Go(func() {
		if err := k.shield.presence.Keep(ctx); err != nil {
			podGone <- err
		}
	})
	for {
		alarm, stopAlarm := sleep.After(time.Until(k.proceed(ctx)))
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-podGone:
			return err
		case me := <-k.shield.presence.Present:
			k.state.setPresence(candidate.OwnerOf(me), time.Now())
		case <-k.shield.presence.Listed:
		case <-k.shield.phase.Changed():
			k.state.stage = k.state.stage.Later(k.shield.phase.Stage())
		case t := <-k.shield.tenures:
			k.startTerm(t)
		case <-k.finished:
			k.termEnded()
		case r := <-k.results:
			k.doing = idle
			k.handleResult(r)
			for _, early := range k.early {
				k.leave(k.state.observe(early, time.Now()))
			}
			k.early = nil
		case <-k.watch.opened:
			k.watchOpened()
		case e := <-k.watch.events:
			k.handleEvent(e)
		case err := <-k.watch.ended:
			k.watchEnded(err)
		case <-k.shield.doubted:
			if k.state.duty != member { // a member's watch is restarted when its term begins
				k.watch.stop()
			}
		case <-alarm:
		}
		stopAlarm()
	}
}

// proceed does what is due, and returns the latest time to look again.
func (k *keeper) proceed(ctx context.Context) time.Time {
	now := time.Now()
	k.shield.phase.Note(k.state.stage)
	all, listed := k.shield.presence.All()
	k.state.shieldKeepers, k.state.listed = candidate.ShieldKeepers(all), listed
	k.publishPermission()
	later := now.Add(time.Hour)
	switch {
	case !k.watch.running() && now.Before(k.watchAt):
		later = k.watchAt
	case k.state.duty == leading && k.watch.running():
		if deaf := k.watch.heard.Add(watchSilence); now.After(deaf) {
			k.watch.stop() // its end is an event
		} else {
			later = deaf.Add(time.Millisecond)
		}
	}
	if k.doing != idle {
		return later
	}
	if k.state.duty == leaving && k.term.term.TrustedFor() <= 0 {
		k.leave(context.Cause(k.term.ctx)) // cut off: it may do no more
	}
	if now.Before(k.retryAt) {
		return k.retryAt
	}
	s := k.state.rules().next(now)
	if k.state.known && !k.watch.running() && !now.Before(k.watchAt) {
		k.startWatch(ctx)
	}
	k.publishWaiting(cmp.Or(s.why, k.trouble, k.state.watchRefusal))
	switch s.do {
	case idle:
		if !s.until.IsZero() && s.until.Before(later) {
			return s.until
		}
		return later
	case grant:
		k.state.startLeading()
		k.term.permit(locks.Permission{Granted: true})
		k.shield.log().Info("no legacy pod can lead: the work may begin", "configMap", k.shield.config.LegacyName)
	case leave:
		k.leave(context.Cause(k.term.ctx))
	case putUp:
		if due := k.remakes.Due(); now.Before(due) {
			if k.state.duty != leading {
				return due
			}
			k.leave(errDeletedAgain)
			break
		}
		if k.state.marked != "" { // there was one
			k.remakes.Made(now)
		}
		k.act(ctx, s.do)
		return later
	default:
		k.act(ctx, s.do)
		return later
	}
	return now
}

// errDeletedAgain ends a term in which something deletes the shield as fast as it is made: most of
// the time nothing would keep legacy pods out (M8).
var errDeletedAgain = fmt.Errorf("%w: the ConfigMap was deleted again at once: find out who deletes it", ErrLegacy)

// publishPermission reports whether this candidate may campaign, if that has changed.
func (k *keeper) publishPermission() {
	c := k.state.rules().permission()
	switch problem := k.shield.presence.Problem(); {
	case !c.Granted && problem != nil:
		c.Why = problem.Error()
	case k.state.record.Kind == "" && k.trouble != "":
		c.Why = k.trouble
	}
	if c != k.said {
		k.said = c
		k.permit(c)
	}
}

// publishWaiting reports what a holder waits for, if that has changed.
func (k *keeper) publishWaiting(why string) {
	if why == k.waiting {
		return
	}
	k.waiting = why
	k.shield.presence.SetWaiting(why)
	switch {
	case k.state.duty == adopting:
		k.term.permit(locks.Permission{Why: why})
	case why != "" && k.state.duty == leading:
		k.shield.log().Info("leading beside the shield", "waitingFor", why)
	}
}

// startTerm begins a term that was won.
func (k *keeper) startTerm(t *tenure) {
	k.publishWaiting("") // the elector has not heard it in this term
	k.term, k.finished = t, t.ctx.Done()
	k.state.beginTerm(time.Now())
	k.state.stage = k.state.stage.Later(k.shield.phase.Stage()) // the term was won in that phase
	k.retryAt, k.watchAt = time.Time{}, time.Time{}
	k.retries.Reset()
	k.watch.stop() // its connection may lead to where the last leader died
}

// termEnded handles the end of the term's context.
func (k *keeper) termEnded() {
	k.finished = nil
	cause := context.Cause(k.term.ctx)
	if errors.Is(cause, locks.ErrTermLost) {
		k.leave(cause)
		return
	}
	k.state.duty = leaving
	k.retryAt = time.Time{}
}

// leave ends the term, unless err is nil: it clears the term's state, and makes Adopt return err.
func (k *keeper) leave(err error) {
	if k.term == nil || err == nil {
		return
	}
	k.term.done <- err
	k.term, k.finished = nil, nil
	k.failing, k.trouble = idle, ""
	k.state.endTerm()
	k.publishWaiting("")
}

// act makes the requests of an action in a goroutine.
func (k *keeper) act(ctx context.Context, do action) {
	requests := 1
	if do == count {
		requests = 3 // lists of several kinds
	}
	cancel := func() {}
	if k.state.duty != member && do != read && do != join {
		// Requests that only the holder may make end with the term, and with its trust.
		ctx = k.term.ctx
		if k.state.duty == leaving {
			ctx = context.WithoutCancel(ctx)
		}
		ctx, cancel = context.WithTimeout(ctx, k.term.term.TrustedFor())
	}
	if k.limits[do] == nil { // reads may be fast where writes are slow
		k.limits[do] = rawapi.NewLimit(k.shield.config.Timing.AttemptTimeout, k.shield.config.Timing.RenewDeadline)
	}
	ctx, done := k.limits[do].Of(ctx, requests)
	k.doing = do
	job := k.job(do)
	k.wait.Go(func() {
		r := job(ctx)
		done()
		cancel()
		k.results <- r
	})
}

// job returns a function that performs an action on the current state.
func (k *keeper) job(do action) func(context.Context) result {
	base, me, stage, seen, presumed := k.state.record, k.state.me, k.state.stage, k.state.seen(), k.state.presumed
	r := result{do: do, sent: time.Now(), of: base}
	shield := shieldmap.StateOf(base)
	switch do {
	case join, unseal: // a sealed ConfigMap goes back to the presences of those that keep a shield (M10)
		shield = k.state.rules().joined(shield)
	case arm:
		shield.Armed, shield.Presumed = true, nil
		for _, p := range k.state.pods.Presumed { // it is armed although they exist
			shield.Presumed = append(shield.Presumed, p.Pod)
		}
	case forget:
		shield.Presumed = k.state.pods.left(shield.Presumed)
	case seal:
		shield.Presences = nil
	}
	shield.Stage = shield.Stage.Later(stage)
	return func(ctx context.Context) result {
		switch do {
		case join, arm, forget, seal, unseal, notePhase:
			r.record, r.err = k.shield.configMap.Change(ctx, base, shield)
		case read:
			r.record, r.err = k.shield.configMap.Read(ctx)
		case putUp:
			shield = shieldmap.State{Presences: []ownerref.Owner{me}, Stage: stage, Seen: seen, Presumed: presumed}
			r.record, r.err = k.shield.configMap.PutUp(ctx, shield)
		case remove:
			r.err = k.shield.configMap.Remove(ctx, base)
		case count:
			r.counted, r.err = k.shield.pods.Count(ctx, base.Owner, seen)
		}
		return r
	}
}

// handleResult applies the outcome of an action to the state.
func (k *keeper) handleResult(r result) {
	if r.err != nil {
		k.handleFailure(r)
		return
	}
	if r.do == k.failing || k.failing == idle && r.do != read && r.do != count {
		k.failing, k.trouble = idle, ""
		k.retries.Reset()
	}
	var lost error
	switch r.do {
	case read:
		lost = k.state.observeRead(r.record, r.of.Number, r.sent, time.Now())
	case count:
		if r.sent.Before(k.state.since) {
			break // for a term that is over
		}
		lost = k.state.observeCount(podCount{r.sent, r.of.Number, r.of.UID, r.counted})
	case remove:
		if r.of.Stays() {
			k.state.known = false // it is there, and condemned
			break
		}
		// The version of the deletion is not known: read it.
		k.state.setRecord(ownerref.Record{Kind: ownerref.Absent, Number: r.of.Number}, time.Now())
	default:
		if r.do == putUp && k.state.ours != nil {
			k.state.ours[r.record.UID] = true
		}
		lost = k.state.observeWrite(r.record, time.Now())
	}
	k.leave(lost)
}

// handleFailure handles an action that failed: the ConfigMap is read before the next
// action. A leader that cannot put its shield up again stops (M8).
func (k *keeper) handleFailure(r result) {
	k.retryAt = time.Now().Add(k.retries.NextBackOff())
	k.state.known = k.state.known && r.do == count // any other action may have changed the record, or come too late
	k.state.readAt = time.Time{}
	if errors.Is(r.err, locks.ErrConflict) {
		return // a race
	}
	if k.trouble != r.err.Error() && !errors.Is(r.err, context.Canceled) { // an end is no trouble
		k.shield.log().Error(r.err, "cannot keep the shield", "action", r.do)
	}
	k.failing, k.trouble = r.do, r.err.Error()
	if r.do == putUp && k.state.duty == leading {
		k.leave(fmt.Errorf("%w: the ConfigMap is gone and could not be recreated: %w", ErrLegacy, r.err))
	}
}
