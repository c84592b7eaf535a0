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

// Elector campaigns for a lock, leads, and campaigns again. Make one with [New]; the
// zero Elector does not work. All methods are safe for concurrent use.
type Elector struct {
	config       Config
	nonce        string
	clock        clock
	telemetry    *telemetry
	board        board
	loopWatchdog loopWatchdog
	running      atomic.Bool
	workWatchdog atomic.Pointer[workWatchdog] // of the newest term; nil before the first
	workRemains  atomic.Bool                  // work has returned ErrUnfinished
	resignations chan resignation
	ended        atomic.Value // chan struct{}: closed when the newest Run returns; nil before the first
}

// New checks config, fills in its defaults and returns an Elector that does nothing
// until Run is called. The error names everything that is wrong with config, and what
// would be valid; it wraps [ErrConfig] or timing.ErrInvalid.
func New(config Config) (*Elector, error) {
	config.Timing = config.Timing.WithDefaults()
	config.Health = config.Health.withDefaults(config.Timing)
	if err := config.validate(); err != nil {
		return nil, err
	}
	if config.ProcessLock == nil {
		config.ProcessLock = func() string { return "" }
	}
	telemetry, err := newTelemetry(config)
	if err != nil {
		return nil, err
	}
	e := &Elector{
		config:       config,
		nonce:        rand.Text(),
		clock:        clock{asleep: suspended},
		telemetry:    telemetry,
		resignations: make(chan resignation),
	}
	e.board.newest = &published{followed: make(chan struct{})}
	e.board.status = Status{Lock: config.Lock.Describe(), Identity: config.Candidate.Identity, State: status.StateIdle}
	return e, nil
}

// Run campaigns for the lock, calls lead for each term that it wins, and campaigns
// again, until ctx ends. It never calls lead twice at a time, and returns only after
// lead has returned.
//
// The context of lead carries the values of ctx and the term. It ends with the term,
// and context.Cause says why: [ErrLost], [ErrResigned], [ErrHandedOver],
// [ErrUnhealthy], [ErrWithdrawn] or [ErrStopped]. After a loss lead has StopGrace to
// return before somebody else may lead. After any other cause the elector renews for
// up to StopTimeout and releases the lock when lead has returned. If lead takes longer,
// the elector lets the lease run out, and this candidate waits for that as all others
// do.
//
// Run returns:
//   - the error of lead, or nil, if lead returns by itself. The lock is released.
//   - nil if ctx ends, or the error of lead unless that only reports the end of its
//     context.
//   - the cause of a lost term, if Config.StopAtLoss is set. Otherwise a lost term is
//     not an error.
//   - an error that wraps [ErrUnfinished], if lead returned one, whatever ended the
//     term. The lock is not released, and every later call fails too. If lead ends its
//     goroutine by runtime.Goexit, as testing.T.FailNow does, that counts as
//     ErrUnfinished, because nobody knows what lead would have waited for.
//   - the error of the lock's guardian, if it returns early.
//   - an error if an earlier call has not returned yet.
//
// A panic in lead ends the process.
func (e *Elector) Run(ctx context.Context, lead func(context.Context, Term) error) error {
	if !e.running.CompareAndSwap(false, true) {
		return errors.New("the elector is running already")
	}
	defer e.running.Store(false)
	if lead == nil {
		return fmt.Errorf("%w: Run was given no function to lead with", ErrConfig)
	}
	if e.workRemains.Load() {
		return fmt.Errorf("%w in an earlier term: this process does not campaign again: end it", ErrUnfinished)
	}
	ended := make(chan struct{})
	again := e.ended.Swap(ended) != nil
	defer close(ended)
	r := newRun(ctx, e, lead, again)
	defer e.telemetry.start(e, r.report.log)()
	defer r.close()
	r.startGuardian()
	r.watch(r.watching)
	return r.loop()
}

// Status returns what the elector knows now. State and Overrun are right even while
// the elector hangs, such as in a Logger that blocks.
func (e *Elector) Status() Status {
	s := e.board.read()
	if (s.State == status.StateLeader || s.State == status.StateAdopting) && s.Term.TrustedFor() <= 0 {
		s.State = status.StateStopping
	}
	s.Overrun = s.Overrun || e.workWatchdog.Load().overdue()
	return s
}

// Timing returns the timing of the Config, with its defaults filled in.
func (e *Elector) Timing() Timing { return e.config.Timing }

// Term returns the newest term of this candidate, or the zero Term before the first.
// It is the current term as long as it is trusted.
func (e *Elector) Term() Term { return e.board.read().Term }
