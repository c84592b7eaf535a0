// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/zonelect/zonelect/election/status"
)

// ErrRunning says that Run was called while an earlier call had not returned.
var ErrRunning = errors.New("the elector is running already")

// ErrNotLeading says that there is no term to give up.
var ErrNotLeading = errors.New("not leading")

// Elector campaigns for a lock, leads, and campaigns again. All its methods
// are safe for concurrent use.
type Elector struct {
	config       Config
	nonce        string
	clock        clock
	telemetry    *telemetry
	board        board
	loopWatchdog loopWatchdog
	running      atomic.Bool
	workWatchdog atomic.Pointer[workWatchdog] // of the newest term; nil before the first
	forfeited    atomic.Bool                  // see rules.Self.Forfeited: it outlives Run
	workRemains  atomic.Bool                  // work has returned ErrUnfinished
	stepDowns    chan stepDownRequest
	ended        atomic.Value // chan struct{}: closed when the newest Run returns
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
		stepDowns: make(chan stepDownRequest),
	}
	e.board.status = Status{Lock: config.Lock.Describe(), Identity: config.Candidate.Identity, State: status.StateIdle}
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
	if e.workRemains.Load() && !e.config.CampaignUnfinished {
		return fmt.Errorf("%w in an earlier term, and %s", ErrUnfinished, unfinishedAdvice)
	}
	ended := make(chan struct{})
	e.ended.Store(ended)
	defer close(ended)
	r := newRun(ctx, e, lead)
	defer r.close()
	r.startGuardian()
	r.watchPeers(r.watching)
	r.watchHealth(r.watching)
	return r.loop()
}

// Status returns what the elector knows now. Its State and Overrun are right
// also while the elector hangs, as in a call of a Logger that blocks.
func (e *Elector) Status() Status {
	s := e.board.read()
	if (s.State == status.StateLeader || s.State == status.StateAdopting) && s.Term.TrustedFor() <= 0 {
		s.State = status.StateStopping
	}
	s.Overrun = s.Overrun || e.workWatchdog.Load().overdue()
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
	return e.stepDown(ctx, stepDownRequest{over: make(chan error, 1)})
}
