// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
)

// run is what one call of Run owns. Only its goroutine touches it.
type run struct {
	*Elector
	lead          func(context.Context, Term) error
	me            locks.Candidate // with the zone as it is known by now
	ctx           context.Context // ends when Run is to return
	stop          <-chan struct{} // the end of ctx; nil once the loop knows of it
	state         state           // nil once Run is to return
	result        error           // what Run returns then
	report        *reporter
	requests      context.Context // outlives Run's own, for a release in good order
	observer      *rules.Observer
	exchange      *exchange
	answers       chan *answer // of requests
	watcher       *watcher
	share         float64 // of this candidate, see rules.Share
	watching      context.Context
	unwatch       context.CancelFunc
	guardian      locks.Guardian        // nil if the lock has none
	permission    locks.Permission      // whether this candidate may campaign
	permissions   chan locks.Permission // nil without a guardian
	guardianLeft  chan error            // gets what the guardian's Attend returned
	background    sync.WaitGroup        // goroutines of this Run, except the work
	zoneUpdates   chan string           // nil without Config.WatchZone
	peerUpdates   chan []locks.Peer     // nil without Config.WatchPeers
	peers         []locks.Peer          // all candidates that are known, by identity
	healthUpdates chan error            // nil without Health.Check

	noShows  map[string]time.Time // by identity: until then a successor that did not take the lock is not chosen again
	keptTerm *leadership          // the last term, if its lock is still to be given up
	holdOff  time.Time            // no takeover before this: this candidate gave the lock up
	outage   rules.Outage         // of the API, as this candidacy sees it
	fitness  fitness              // of this candidate
	adoption adoption             // the guardian's part in the term
	workDone chan error           // gets what the work returned; nil while there is no work
	endBegan time.Time            // when the end of Run began; zero before
}

// newRun returns a run of the elector, perhaps once more: then it is forgotten what an earlier one saw of others, and
// a record that stood before may be back over theirs.
func newRun(ctx context.Context, e *Elector, lead func(context.Context, Term) error, again bool) *run {
	r := &run{
		Elector:  e,
		lead:     lead,
		me:       e.config.Candidate,
		ctx:      ctx,
		stop:     ctx.Done(),
		report:   newReporter(context.WithoutCancel(ctx), e),
		requests: context.WithoutCancel(ctx),
		observer: rules.NewObserver(rules.Self{
			Identity:     e.config.Candidate.Identity,
			Nonce:        e.nonce,
			Lease:        e.config.Timing.LeaseDuration,
			WaitOnAbsent: e.config.WaitOnAbsent,
			Token:        e.Term().Token,
			Forfeited:    again,
		}),
		answers: make(chan *answer, mostFlights+1),
		share:   rules.Share(e.config.Lock.Describe(), e.config.Candidate.Identity),
		noShows: map[string]time.Time{},
	}
	if !again {
		r.observer.Follow(e.config.ProcessLock())
	}
	r.exchange = &exchange{timing: e.config.Timing, observer: r.observer}
	r.watcher = &watcher{
		lock: e.config.Lock, stream: stream{cancel: func() {}},
		pauses: r.newPauses(15 * e.config.Timing.RenewInterval), wait: &r.background,
	}
	r.watching, r.unwatch = context.WithCancel(r.requests)
	return r
}

// close ends what Run started, and waits for it, see await.
func (r *run) close() {
	r.loopWatchdog.expect(time.Now())
	r.unwatch() // the guardian and the peers, too
	r.watcher.cancel()
	r.cancelAll()
	r.await()
	r.loopWatchdog.expect(time.Time{})
	r.report.ended()
}

// state is one state of the table in doc.go.
type state interface {
	// proceed does what is due and returns until when to wait for an event, or the zero
	// time if another state is to proceed at once.
	proceed() time.Time
	handle(e event)
}

// entered is called at each transition; nil stands for idle. Tests replace it.
var entered = func(from, to state) {}

// enter makes a transition.
func (r *run) enter(to state) {
	entered(r.state, to)
	r.state = to
}

// finish makes Run return err.
func (r *run) finish(err error) {
	r.result = err
	r.enter(nil)
}

// loop goes through the states until Run is to return, and returns what Run returns.
func (r *run) loop() error {
	r.loopWatchdog.expect(time.Now())
	for r.follow(); r.state != nil; {
		if until := r.state.proceed(); !until.IsZero() {
			r.loopWatchdog.expect(r.exchange.dueBy(until))
			e := r.wait(until)
			r.loopWatchdog.expect(r.exchange.dueBy(time.Now()))
			r.state.handle(e)
		}
	}
	return r.result
}

// await waits for what Run has started, for a StopTimeout from when its end began at the most. Who
// does not obey its context is given up then. It may only write what no candidate believes: nothing
// was released while a write was under way.
func (r *run) await() {
	began := r.endBegan
	if began.IsZero() {
		began = time.Now()
	}
	t := r.config.Timing
	left := time.NewTimer(max(time.Until(began.Add(t.StopTimeout)), t.AttemptTimeout))
	defer left.Stop()
	back := make(chan struct{})
	go func() {
		defer close(back)
		r.background.Wait()
	}()
	select {
	case <-back:
	case <-left.C:
		err := errors.New("a lock, guardian, credential plugin, WrapTransport, Dial or function of Config does not obey its context")
		r.report.log.Error(err, "Run returns although something that it started is still running")
	}
}

// event is what can happen while the loop waits: one of the types below, an answer,
// a locks.Event or a resignation. Nil says that time is up.
type event any

type (
	stopWanted         struct{} // the context of Run has ended
	watchOver          struct{ err error }
	fact               func()                     // notes what is known about this candidate or the others, in any state
	campaignPermission struct{ locks.Permission } // whether this candidate may campaign
	workPermission     struct{ locks.Permission } // whether the work of the term may begin
	guardianGone       struct{ err error }
	workOver           struct{ err error }
	adoptionOver       struct { // the guardian's part in the term
		err   error
		early bool // it was not to finish yet
	}
)

// wait returns the next event.
func (r *run) wait(until time.Time) event {
	alarm, stopAlarm := sleep.After(time.Until(until))
	defer stopAlarm()
	select {
	case <-alarm:
		return nil
	case <-r.stop:
		r.stop, r.endBegan = nil, time.Now()
		return stopWanted{}
	case a := <-r.answers:
		return r.received(a)
	case e := <-r.watcher.events:
		return e
	case err := <-r.watcher.ended:
		return watchOver{err}
	case request := <-r.resignations:
		return request
	case zone := <-r.zoneUpdates:
		return fact(func() { r.me.Zone = zone })
	case peers := <-r.peerUpdates:
		return fact(func() { r.setPeers(peers) })
	case problem := <-r.healthUpdates:
		return fact(func() { r.setHealth(problem) })
	case p := <-r.permissions:
		return campaignPermission{p}
	case err := <-r.guardianLeft:
		return guardianGone{err}
	case p := <-r.adoption.permissions:
		return workPermission{p}
	case over := <-r.adoption.done:
		return over
	case err := <-r.workDone:
		return workOver{err}
	}
}

// handle answers those events that all states answer alike.
func (r *run) handle(e event) {
	switch e := e.(type) {
	case watchOver:
		r.watchEnded(e.err)
	case fact:
		e()
	case campaignPermission:
		r.setPermission(e.Permission)
	}
}

// observe notes a snapshot, see [rules.Observer.Observe].
func (r *run) observe(s locks.Snapshot, now time.Time) bool {
	return r.observed(r.observer.Observe(s, now))
}

// observeRead notes the answer to a read, see [rules.Observer.ObserveRead].
func (r *run) observeRead(a answer, blind bool, now time.Time) bool {
	r.exchange.shown.note(a)
	return r.observed(r.observer.ObserveRead(a.snapshot, a.asOf, blind, now))
}

// observeEvent notes an event of the watch, see [rules.Observer.ObserveEvent].
func (r *run) observeEvent(e locks.Event, now time.Time) bool {
	r.watcher.hear(e, now)
	r.report.result(opWatch, nil)
	return r.observed(r.observer.ObserveEvent(e, r.watcher.after, now))
}

// observed reports what the observer has seen.
func (r *run) observed(news bool) bool {
	r.report.seen(r.observer.UID())
	return news
}
