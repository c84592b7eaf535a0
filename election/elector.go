// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-logr/logr"

	"github.com/zonelect/zonelect/locks"
)

// ErrRunning says that Run was called while an earlier call had not returned.
var ErrRunning = errors.New("the elector is running already")

// ErrNotLeading says that there is no term to give up.
var ErrNotLeading = errors.New("not leading")

// Elector campaigns for a lock, leads, and campaigns again. All its methods
// are safe for concurrent use.
type Elector struct {
	config    Config
	nonce     string
	clock     clock
	telemetry *telemetry
	board     board
	pulse     pulse
	running   atomic.Bool
	dog       atomic.Pointer[watchdog] // of the newest term; nil before the first
	forfeit   atomic.Bool              // see judge.forfeit: it outlives Run
	remains   atomic.Bool              // work has returned ErrUnfinished
	farewells chan farewell
	ended     atomic.Value // chan struct{}: closed when the newest Run returns
}

// New checks config, fills in its defaults and returns an Elector that does
// nothing yet. Its errors name all that is wrong, and what would be valid.
func New(config Config) (*Elector, error) {
	config.Timing = config.Timing.WithDefaults()
	config.Health = config.Health.withDefaults(config.Timing)
	if err := config.validate(); err != nil {
		return nil, err
	}
	t, err := newTelemetry(config)
	if err != nil {
		return nil, err
	}
	e := &Elector{
		config:    config,
		nonce:     rand.Text(),
		clock:     clock{asleep: suspended},
		telemetry: t,
		farewells: make(chan farewell),
	}
	e.board.status = Status{Lock: config.Lock.Describe(), Identity: config.Candidate.Identity, State: StateIdle}
	return e, nil
}

// Run campaigns for the lock, calls lead for each term that it wins, and
// campaigns again, until ctx ends. It never calls lead twice at a time, and
// returns only after lead has returned.
//
// The context of lead ends with the term, and context.Cause tells why:
// [ErrLost], [ErrResigned], [ErrHandedOver], [ErrUnhealthy], [ErrWithdrawn] or
// [ErrStopped]. It carries the values of ctx and
// the term. When trust in the term is lost, lead has StopGrace to return
// before somebody else may lead. When the stop is wanted, the elector goes on
// renewing for up to StopTimeout, and then releases the lock. If lead
// takes longer, the lease is left to run out, and this candidate waits for that
// as any other does.
//
// When lead returns by itself, the lock is released, unless the error wraps
// [ErrUnfinished], and Run returns the error.
// When ctx ends, Run returns nil, or what lead returned if that is not the
// end of its context. A lost term is not an error, unless StopAtLoss is set.
//
// When lead returns an error that wraps ErrUnfinished, Run returns it, whatever
// the term ended for, and so does every later call, unless
// Config.CampaignUnfinished is set. If lead ends its goroutine by
// runtime.Goexit, as testing.T.FailNow does, that is such an error: nobody knows
// what it would have waited for. A panic of lead ends the process.
func (e *Elector) Run(ctx context.Context, lead func(context.Context, Term) error) error {
	if !e.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer e.running.Store(false)
	if lead == nil {
		return fmt.Errorf("%w: Run was given no function to lead with", ErrConfig)
	}
	if e.remains.Load() && !e.config.CampaignUnfinished {
		return fmt.Errorf("%w in an earlier term, and %s", ErrUnfinished, unfinishedAdvice)
	}
	ended := make(chan struct{})
	e.ended.Store(ended)
	defer close(ended)
	r := newRun(ctx, e, lead)
	defer r.close()
	r.attend()
	r.watchPeers(r.watching)
	r.watchHealth(r.watching)
	for {
		won, err := r.campaign(ctx)
		if ctx.Err() != nil {
			if err == nil { // it won as it was stopped
				_ = r.release(0, "", locks.Handover{}, false) // what it could not do, it has noted
			}
			return nil
		}
		if err != nil {
			return err
		}
		again, err := r.lead(ctx, won)
		if !again {
			return err
		}
	}
}

// Status returns what the elector knows now. Its State and Overrun are right
// also while the elector hangs, as in a call of a Logger that blocks.
func (e *Elector) Status() Status {
	s := e.board.read()
	if (s.State == StateLeader || s.State == StateAdopting) && s.Term.TrustedFor() <= 0 {
		s.State = StateStopping
	}
	s.Overrun = s.Overrun || e.dog.Load().overdue()
	return s
}

// Timing returns the timing, with its defaults filled in.
func (e *Elector) Timing() Timing { return e.config.Timing }

// Term returns the last term of this candidate, which is the current one as long
// as it is trusted, and the zero Term before the first.
func (e *Elector) Term() Term { return e.board.read().Term }

// Subscribe returns a channel of every transition from now on, in order, until
// ctx ends; then it is closed. A slow reader delays nobody and misses nothing.
func (e *Elector) Subscribe(ctx context.Context) <-chan Transition { return e.board.subscribe(ctx) }

// Resign ends the term in good order: the work stops, the lock is released,
// and this candidate leaves it to others for one RenewInterval. It returns nil
// when the lock has been released, and else ErrNotLeading if there is no term,
// an error that wraps [ErrNotReleased] and says why, or when ctx ends. Work that
// has not stopped in time is not waited for any longer.
//
// The work itself should return instead of calling it. With a context that was
// made from the work's, Resign then ends the term and returns ErrNotReleased at
// once. With another, which does not tell who calls, the work waits for its own
// return: Resign gives that up with ErrNotReleased after a StopTimeout, or a
// StopGrace after the end of trust if that is sooner.
func (e *Elector) Resign(ctx context.Context) error {
	return e.leave(ctx, farewell{over: make(chan error, 1)})
}

// run is what one call of Run owns. Only its goroutine touches it.
type run struct {
	*Elector
	work       func(context.Context, Term) error
	log        logr.Logger
	requests   context.Context // outlives Run's own, for a release in good order
	judge      judge
	courier    *courier
	watcher    *watcher
	share      float64          // of this candidate, see share
	trips      [2]time.Duration // how long the last reads took
	watching   context.Context
	unwatch    context.CancelFunc
	problems   map[operation]error   // by kind
	guardian   locks.Guardian        // nil if the lock is none
	clearance  locks.Permission      // whether this candidate may campaign
	clearances chan locks.Permission // nil without a guardian
	left       chan error            // gets what the guardian's Attend returned
	beside     sync.WaitGroup        // what runs beside the loop, but for the work
	met        chan []locks.Peer     // nil where nobody tells who campaigns
	peers      []locks.Peer          // all candidates that are known, by identity
	checked    chan error            // nil where nothing tells how this candidate is

	noShows map[string]noShow // successors that did not come, by identity
	kept    *leadership       // the last term, if its lock is still to be given up
	holdOff time.Time         // not before this is the lock taken again: it was given up
	outage  outage            // of the API, as this candidacy sees it
	fitness fitness           // of this candidate
	inquest inquest           // whether the holder that is followed is dead
}

func newRun(ctx context.Context, e *Elector, work func(context.Context, Term) error) *run {
	r := &run{
		Elector:  e,
		work:     work,
		log:      e.config.Logger,
		requests: context.WithoutCancel(ctx),
		judge: judge{
			identity:     e.config.Candidate.Identity,
			nonce:        e.nonce,
			lease:        e.config.Timing.LeaseDuration,
			waitOnAbsent: e.config.WaitOnAbsent,
			maxSkew:      e.config.MaxClockSkew,
			token:        e.Term().Token,
			forfeit:      e.forfeit.Load(),
		},
		courier:  newCourier(e.config.Lock, e.clock, &e.pulse),
		share:    share(e.config.Lock.Describe(), e.config.Candidate.Identity),
		problems: map[operation]error{},
		noShows:  map[string]noShow{},
	}
	r.watcher = newWatcher(e.config.Lock, newPauses(e.config.Timing.RenewInterval/10, 15*e.config.Timing.RenewInterval, r.share))
	if r.log.GetSink() == nil {
		r.log = logr.FromContextOrDiscard(ctx)
	}
	r.log = r.log.WithValues("lock", e.config.Lock.Describe().String(), "identity", e.config.Candidate.Identity)
	r.watching, r.unwatch = context.WithCancel(r.requests)
	return r
}

// close ends what Run started, and waits for it.
func (r *run) close() {
	r.pulse.until(time.Now())
	r.unwatch() // the guardian, the peers and the inquest, too
	r.watcher.stop()
	r.courier.cancel()
	r.courier.wait.Wait()
	r.beside.Wait()
	r.pulse.rest()
	r.board.publish(ChangeEnded, nil, func(s *Status) { s.State, s.Unhealthy = StateIdle, nil })
}

// observe has the judge take in a snapshot, see [judge.observe].
func (r *run) observe(s locks.Snapshot, now time.Time) bool {
	news := r.judge.observe(s, now)
	r.board.update(func(s *Status) { s.LockUID = r.judge.uid })
	return news
}

// observeRead has the judge take in the answer to a read, see
// [judge.observeRead].
func (r *run) observeRead(a answer, blind bool, now time.Time) bool {
	news := r.judge.observeRead(a.snapshot, a.asOf, blind, now)
	r.board.update(func(s *Status) { s.LockUID = r.judge.uid })
	return news
}

// note records what came of an operation: a problem is published and logged
// when it is new, and when it is gone.
func (r *run) note(op operation, err error) {
	before := r.problems[op.kind()]
	if err == nil && before == nil || err != nil && before != nil && wording(err) == wording(before) {
		return
	}
	if err == nil {
		delete(r.problems, op.kind())
		r.board.publish(ChangeResolved, nil, func(s *Status) { s.Problem = r.problem() })
		r.log.Info("problem resolved", "operation", string(op))
		return
	}
	r.problems[op.kind()] = err
	r.board.publish(ChangeProblem, nil, func(s *Status) { s.Problem = r.problem() })
	r.log.Error(err, "cannot use the lock", "operation", string(op))
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

// settle forgets a write whose answer was lost, once it is seen that another
// holds the lock: that one was settled, and there is none to come. What the
// server refused, it would refuse again.
func (r *run) settle() {
	holder, _ := r.judge.holder()
	lost := r.problems[opWrite]
	if holder != "" && holder != r.config.Candidate.Identity && !errors.Is(lost, locks.ErrForbidden) && !errors.Is(lost, locks.ErrNoAPI) {
		r.note(opWrite, nil)
	}
}

func (r *run) problem() error {
	var all []error
	for _, op := range []operation{opRead, opWrite, opWatch} {
		all = append(all, r.problems[op])
	}
	return errors.Join(all...)
}

// renewRetries returns the delays between renewals of which the answer was
// lost. They are no closer than a second where that can matter to client-go
// (see Timing.Exclusive), and no further apart than renewals are.
func (t Timing) renewRetries() *backoff.ExponentialBackOff {
	b := retries(t.spacing(), t.RenewInterval)
	b.RandomizationFactor = 0
	b.Reset()
	return b
}

// spacing is the least time between two writes that may both have landed.
func (t Timing) spacing() time.Duration { return min(t.RenewInterval, time.Second) }
