// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/internal/environment"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/memory"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/multilock/shield"
	"github.com/zonelect/zonelect/locks/multilock/twin"
	"github.com/zonelect/zonelect/operator/internal/events"
	"github.com/zonelect/zonelect/zone"
)

// Election is an operator's part in its election: an election.Elector with all that it needs.
// Its methods are safe for concurrent use.
type Election struct {
	*election.Elector
	options     Options
	environment *environment.Environment // nil if there is no API server
	roster      roster                   // nil without an API server, too
	closeAll    func()                   // closes the connections of this election; nil if it has none
	group       *Group                   // nil if this election shares nothing
	log         logr.Logger
	exit        func(code int)
}

// processLock is replaced by tests, whose process is in no container.
var processLock = environment.ProcessLock

// Run takes part in the election of that name until ctx ends, and calls lead for each term
// that this process wins: see election.Elector.Run. It returns the result of that call, or
// returns at once with what is wrong with the options or the environment.
func Run(ctx context.Context, name string, lead func(context.Context, election.Term) error, o Options) error {
	e, err := New(ctx, name, o)
	if err != nil {
		return err
	}
	return e.Run(ctx, lead)
}

// Become blocks until this process leads in the election of that name. leading ends with the
// leadership, and carries the term (election.TermFromContext). done says that the work has
// stopped: it releases the lock, and returns when that is done. It may be called more than
// once.
//
// Without done the lock is not released: after StopTimeout it is no longer renewed, and
// expires. When ctx ends, leading ends too, in good order. If ctx ends before this process leads,
// the error wraps election.ErrStopped: that is the normal end of a follower. There is no second
// term: a process that has lost its leadership normally ends.
//
// Options come from the environment, see Options.FromEnvironment. Become replaces
// operator-lib's leader.Become.
func Become(ctx context.Context, name string) (leading context.Context, done func(), err error) {
	var o Options
	if err := o.FromEnvironment(); err != nil {
		return nil, nil, err
	}
	return o.Become(ctx, name)
}

// Become is the function of the same name, with these options.
func (o Options) Become(ctx context.Context, name string) (leading context.Context, done func(), err error) {
	e, err := newElection(ctx, name, o, func(c *election.Config) { c.StopAtLoss = true }, nil)
	if err != nil {
		return nil, nil, err
	}
	began, finished := make(chan context.Context), make(chan struct{})
	over := make(chan error, 1)
	once, end := context.WithCancel(ctx)
	go func() {
		over <- e.Run(once, func(ctx context.Context, _ election.Term) error {
			began <- ctx
			<-finished
			end() // whatever ended the term
			return nil
		})
	}()
	select {
	case leading = <-began:
		return leading, sync.OnceFunc(func() {
			close(finished)
			if err := <-over; err != nil && !errors.Is(err, election.ErrLost) {
				e.log.Error(err, "the election ended with an error")
			}
		}), nil
	case err := <-over:
		end()
		if err == nil {
			err = fmt.Errorf("%w before this process led: %w", election.ErrStopped, context.Cause(ctx))
		}
		return nil, nil, err
	}
}

// New returns an Election that does nothing until its Run is called. It asks the API server
// only for this node's zone.
func New(ctx context.Context, name string, o Options) (*Election, error) {
	return newElection(ctx, name, o, func(*election.Config) {}, nil)
}

func newElection(ctx context.Context, name string, o Options, change func(*election.Config), in *Group) (*Election, error) {
	if in == nil {
		name = cmp.Or(o.Name, name)
	}
	e := &Election{exit: os.Exit, group: in}
	c, err := e.prepare(ctx, name, o)
	if err == nil {
		change(&c)
		e.Elector, err = election.New(c)
	}
	if err != nil {
		return nil, fmt.Errorf("election %q: %w", name, err)
	}
	return e, nil
}

// prepare finds out where this process runs, and makes all that its elector needs.
func (e *Election) prepare(ctx context.Context, name string, o Options) (election.Config, error) {
	if err := o.validate(name); err != nil {
		return election.Config{}, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	o.Logger = logger(ctx, o)
	e.options, e.log = o, o.Logger
	c := election.Config{
		Timing: o.Timing, Health: o.Health, TracerProvider: o.TracerProvider, MeterProvider: o.MeterProvider, Logger: e.log,
	}
	if !o.WorkOutlivesProcess {
		c.ProcessLock = processLock
	}
	if o.ExitOnOverrun {
		c.OnOverrun = e.exitOnOverrun
	}
	var err error
	switch {
	case e.group != nil:
		err = e.join(&c, name)
	case o.Disabled:
		e.log.Info("leader election is off: this process leads at once, and nothing keeps another from leading too")
		c.Candidate = locks.Candidate{Identity: cmp.Or(o.Self.Identity, "unelected"), Zone: o.Self.Zone, Node: o.Self.Node}
		c.Lock, c.TakeoverDelay = memory.New(name), func(election.Takeover) time.Duration { return 0 }
		return c, nil
	default:
		err = e.place(ctx, &c, name)
	}
	if err == nil {
		c.WaitOnAbsent, c.TakeoverDelay = o.WaitOnAbsent, zone.Order{Preferred: o.PreferredZones, Timing: o.Timing}.TakeoverDelay
		c.WatchPeers = e.roster.Peers
	}
	return c, err
}

// join makes the lock of an election in a Group.
func (e *Election) join(c *election.Config, name string) (err error) {
	g := e.group
	e.environment, e.roster = g.environment, groupRoster{g.keeper}
	c.Candidate = g.environment.Self.Candidate()
	c.WatchZone = g.watchZone
	if c.Lock, err = g.lock(name); err != nil {
		err = fmt.Errorf("%w: %w", ErrOptions, err) // making a lock asks nobody
	}
	return err
}

// place makes the lock of an election that shares nothing, on connections of its own, and whatever
// else has its own.
func (e *Election) place(ctx context.Context, c *election.Config, name string) error {
	env, err := e.options.environment().Find(ctx, environment.Self(e.options.Self))
	if err != nil {
		return err
	}
	e.environment, c.Candidate = env, env.Self.Candidate()
	if c.Lock, err = e.lock(name); err != nil {
		return fmt.Errorf("%w: %w", ErrOptions, err) // making a lock asks nobody
	}
	e.closeAll, c.WatchZone = c.Lock.Capabilities().CloseConnections, e.zones
	return nil
}

// lock makes the lock of the mode.
func (e *Election) lock(name string) (locks.Lock, error) {
	l, env := e.options.Legacy, e.environment
	mode := l.mode()
	if mode == ModeLease {
		lock, keeper, err := env.Plain(name)
		e.roster = keeper
		return lock, err
	}
	if kind, two := annotated[l.ResourceLock]; two {
		lock, err := env.Twin(name, twin.Config{Kind: kind, LegacyName: l.Name, Mode: multilock.Mode(mode)})
		e.roster = lock
		return lock, err
	}
	lock, err := env.Shield(name, shield.Config{
		LegacyName: l.Name, Mode: multilock.Mode(mode), PodSelector: l.PodSelector, LegacyGrace: l.Grace,
	})
	e.roster = lock
	return lock, err
}

// logger returns the logger of the options, or of ctx, or slog's default.
func logger(ctx context.Context, o Options) logr.Logger {
	if o.Logger.GetSink() != nil {
		return o.Logger
	}
	if l, err := logr.FromContext(ctx); err == nil {
		return l
	}
	return logr.FromSlogHandler(slog.Default().Handler())
}

// roster knows the candidates of a lock, and informs others of this one.
type roster interface {
	Peers(ctx context.Context, tell func([]locks.Peer))
	SetUnhealthy(why string)
	SetZone(zone string)
}

// zones reports the zone of this process, to the other candidates too.
func (e *Election) zones(ctx context.Context, tell func(zone string)) {
	e.environment.WatchZone(ctx, func(zone string) {
		e.roster.SetZone(zone)
		tell(zone)
	})
}

// Run is election.Elector.Run, with Kubernetes Events on the Lease, as the options say. It
// leaves no connection of the election open.
func (e *Election) Run(ctx context.Context, lead func(context.Context, election.Term) error) error {
	if e.closeAll != nil {
		defer e.closeAll() // after the last request of what is started below
	}
	if e.group != nil {
		defer e.group.enter(ctx)()
	}
	telling, end := context.WithCancel(context.WithoutCancel(ctx))
	var tellers sync.WaitGroup
	defer tellers.Wait()
	defer end()
	if e.options.Health.Check != nil && e.roster != nil {
		transitions := e.Subscribe(telling)
		tellers.Go(func() { tellHealth(transitions, e.roster) })
	}
	if !e.options.NoEvents && e.environment != nil {
		if err := events.Post(e.environment.Config, e.log, e.Subscribe(telling), &tellers); err != nil {
			return err
		}
	}
	return e.Elector.Run(ctx, lead)
}

// tellHealth tells the other candidates whether this one is healthy.
func tellHealth(transitions <-chan election.Transition, others roster) {
	for t := range transitions {
		switch {
		case t.Change != status.ChangeHealth:
		case t.Status.Unhealthy == nil:
			others.SetUnhealthy("")
		default:
			others.SetUnhealthy(t.Status.Unhealthy.Error())
		}
	}
}

// leastToLog is how long an ending process waits for its last log line.
const leastToLog = 10 * time.Millisecond

// exitOnOverrun ends the process. It waits for the log only while no other candidate may
// lead, or for a moment: a log that blocks may be why the work is late.
func (e *Election) exitOnOverrun(term election.Term, cause error) {
	what := "the work has not stopped in time"
	if errors.Is(cause, election.ErrUnfinished) {
		what = "the work says that part of it may go on"
	}
	logged := make(chan struct{})
	go func() { // the process ends before the log line if the log hangs
		defer close(logged)
		e.log.Error(cause, what+": this process ends now, so that the next leader is alone")
	}()
	select {
	case <-logged:
	case <-time.After(max(leastToLog, min(term.TrustedFor(), time.Second))):
	}
	e.exit(1)
}

// Alive is a check for a liveness probe, in the form that controller-runtime takes. It fails
// only in states that nothing but the end of the process is certain to fix: work continues in
// a term that is no longer trusted and should have stopped, or the elector does not move, see
// election.Elector.Alive. It never fails because the API is unavailable, or because this
// candidate is unhealthy or does not lead. A nil Election, such as that of a manager without
// election, is alive.
func (e *Election) Alive(*http.Request) error {
	if e == nil {
		return nil
	}
	if s := e.Status(); s.Overrun && s.Term.TrustedFor() <= 0 {
		return fmt.Errorf("%w: the work of token %d on %v goes on", election.ErrUntrusted, s.Term.Token, s.Lock)
	}
	return e.Elector.Alive()
}

// LivenessHandler answers a liveness probe with the result of Alive: 200 and "ok", or 503 and
// the reason, in text.
func (e *Election) LivenessHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if err := e.Alive(req); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n") // a client that has gone needs no answer
	})
}
