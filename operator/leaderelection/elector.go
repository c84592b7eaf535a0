// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderelection

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/operator"
)

// RunOrDie runs a LeaderElector until its leadership or ctx ends. It panics if the config cannot be
// used.
func RunOrDie(ctx context.Context, config LeaderElectionConfig) {
	le, err := NewLeaderElector(config)
	if err != nil {
		panic(err)
	}
	if config.WatchDog != nil {
		config.WatchDog.SetLeaderElection(le)
	}
	le.Run(ctx)
}

// LeaderElector takes part in an election. Make one with NewLeaderElector. Safe for concurrent use.
type LeaderElector struct {
	config  LeaderElectionConfig
	lock    *resourcelock.LeaseLock
	options operator.Options

	turn    chan struct{} // holds the call of Run whose election goes on
	current atomic.Pointer[operator.Election]
	last    atomic.Pointer[work] // has returned before the first
}

// NewLeaderElector returns a LeaderElector, or an error that wraps ErrConfig. It sends no request.
func NewLeaderElector(config LeaderElectionConfig) (*LeaderElector, error) {
	o, err := config.options()
	if err != nil {
		return nil, err
	}
	le := &LeaderElector{config: config, lock: config.Lock.(*resourcelock.LeaseLock), options: o, turn: make(chan struct{}, 1)}
	none := &work{returned: make(chan struct{})}
	close(none.returned)
	le.last.Store(none)
	return le, nil
}

// Run campaigns, leads once, and returns when that ends, or when ctx does. Before it returns, it calls
// OnStoppedLeading. It logs why it could not go on, if that is the reason. A second call waits for the
// first, and for its OnStartedLeading.
func (le *LeaderElector) Run(ctx context.Context) {
	defer le.config.Callbacks.OnStoppedLeading()
	select {
	case le.turn <- struct{}{}:
	case <-ctx.Done():
		return
	}
	over := le.elect(ctx)
	le.last.Load().end()
	if over != nil {
		klog.FromContext(ctx).Error(over, "the election has ended", "lock", le.lock.Describe())
	}
}

// elect takes part until one leadership has ended, or ctx has. It gives the turn to the next call when
// the election is over, which may be later.
func (le *LeaderElector) elect(ctx context.Context) error {
	next := func() { <-le.turn }
	select {
	case <-le.last.Load().returned:
	case <-ctx.Done():
		next()
		return nil
	}
	o := le.options
	if o.Logger.GetSink() == nil {
		o.Logger = klog.FromContext(ctx)
	}
	e, err := operator.New(ctx, o.Name, o)
	if err != nil {
		next()
		return err
	}
	le.current.Store(e)
	l := &leadership{LeaderElector: le, ctx: ctx, stops: make(chan stop, 1), left: make(chan struct{})}
	over := make(chan error, 1)
	go func() {
		defer next()
		over <- l.run(e)
	}()
	return l.await(over)
}

// leadership is the one that Run waits for.
type leadership struct {
	*LeaderElector
	ctx   context.Context // of Run
	stops chan stop       // gets the term when its work is to stop in good order
	left  chan struct{}   // closed when the lease is left to run out

	releases atomic.Bool // the lock may be released
}

// stop is the end of a term in good order.
type stop struct {
	term    election.Term
	trusted time.Time // until then, unless it is renewed
}

// run takes part in an election until one term of this process has ended.
func (l *leadership) run(e *operator.Election) error {
	once, end := context.WithCancel(l.ctx)
	defer end()
	if tell := l.config.Callbacks.OnNewLeader; tell != nil {
		go tellNewLeaders(e.Subscribe(once), tell)
	}
	err := e.Run(once, func(leading context.Context, term election.Term) error {
		defer end()
		return l.lead(leading, term)
	})
	if errors.Is(err, election.ErrUnfinished) {
		return nil // left says so
	}
	return err
}

// tellNewLeaders calls tell whenever the leader changes.
func tellNewLeaders(transitions <-chan election.Transition, tell func(identity string)) {
	last := ""
	for t := range transitions {
		if holder := t.Status.Holder; holder != "" && holder != last {
			last = holder
			tell(holder)
		}
	}
}

// untrusted is how often the term is looked at while the work stops and the lock is released.
const untrusted = 50 * time.Millisecond

// await waits for the end of the leadership: the election is over, the lease is left to run out, or the
// term is not trusted any more, while its work stops or its lock is released.
func (l *leadership) await(over <-chan error) error {
	var s stop
	var look <-chan time.Time // nil before the work is to stop
	for {
		select {
		case err := <-over:
			return err
		case <-l.left:
			return nil
		case s = <-l.stops:
			look = time.Tick(untrusted)
		case <-look:
		}
		switch left := s.term.TrustedFor(); {
		case left > 0:
			s.trusted = time.Now().Add(left)
		case !l.releases.Load() || time.Until(s.trusted) <= 0:
			return nil
		} // a term that is released is not trusted either
	}
}

// lead is the work of the term. It returns nil if the lock may be released.
func (l *leadership) lead(leading context.Context, term election.Term) error {
	l.record("became leader")
	defer l.record("stopped leading")
	work := start(leading, l.config.Callbacks.OnStartedLeading)
	l.last.Store(work)
	<-leading.Done()
	why := context.Cause(leading)
	switch {
	case errors.Is(why, election.ErrLost):
	case !l.config.ReleaseOnCancel:
		why = errors.New("ReleaseOnCancel is not set")
	default:
		l.stops <- stop{term, time.Now().Add(term.TrustedFor())}
		obeyed := false
		select {
		case <-work.returned:
			obeyed = work.obeyed
		case <-time.After(l.config.patience()):
		}
		if l.ctx.Err() != nil || obeyed {
			l.releases.Store(true)
			return nil
		}
		why = errors.New("OnStartedLeading did not return at the end of its context")
	}
	close(l.left)
	return fmt.Errorf("%w: %w", election.ErrUnfinished, why)
}

// record records an event at the lock.
func (le *LeaderElector) record(what string) {
	if to := le.lock.LockConfig.EventRecorder; to != nil {
		of := le.lock.LeaseMeta
		lease := &corev1.ObjectReference{Kind: "Lease", Namespace: of.Namespace, Name: of.Name}
		lease.APIVersion = "coordination.k8s.io/v1"
		to.Eventf(lease, corev1.EventTypeNormal, "LeaderElection", "%s %s", le.lock.Identity(), what)
	}
}

// IsLeader reports whether this process leads. It is false as soon as the work must stop.
func (le *LeaderElector) IsLeader() bool {
	e := le.current.Load()
	return e != nil && e.Status().State == status.StateLeader
}

// GetLeader returns the identity of the last leader that is known, or an empty string.
func (le *LeaderElector) GetLeader() string {
	if e := le.current.Load(); e != nil {
		return e.Status().Holder
	}
	return ""
}

// JitterFactor is client-go's. Nothing here uses it.
const JitterFactor = 1.2

// Check returns an error if OnStartedLeading goes on although others may have led for longer than that,
// or if the election does not move. Nothing but the end of the process is certain to mend either. An
// outage of the API server is not an error.
func (le *LeaderElector) Check(maxTolerableExpiredLease time.Duration) error {
	tolerable := le.config.LeaseDuration - le.config.RenewDeadline + maxTolerableExpiredLease
	if le.last.Load().overdue(tolerable) {
		return fmt.Errorf("the leadership of %s has ended, and OnStartedLeading goes on", le.lock.Describe())
	}
	if e := le.current.Load(); e != nil {
		return e.Elector.Alive()
	}
	return nil
}

// work is one call of OnStartedLeading.
type work struct {
	returned chan struct{}             // closed when it has returned
	obeyed   bool                      // its context had ended by then; read after returned is closed
	ended    atomic.Pointer[time.Time] // when its leadership had; nil before
}

// start calls the work.
func start(leading context.Context, do func(context.Context)) *work {
	w := &work{returned: make(chan struct{})}
	go func() {
		defer close(w.returned)
		do(leading)
		w.obeyed = leading.Err() != nil
	}()
	return w
}

// end notes that its leadership has ended, unless that was before.
func (w *work) end() {
	now := time.Now()
	w.ended.CompareAndSwap(nil, &now)
}

// overdue reports whether it goes on for longer than that after the end of its leadership.
func (w *work) overdue(tolerable time.Duration) bool {
	select {
	case <-w.returned:
		return false
	default:
		ended := w.ended.Load()
		return ended != nil && time.Since(*ended) > tolerable
	}
}

// HealthzAdaptor is a check for a liveness probe, in the form of k8s.io/apiserver/pkg/server/healthz.
// Make one with NewLeaderHealthzAdaptor. Safe for concurrent use.
type HealthzAdaptor struct {
	timeout time.Duration
	elector atomic.Pointer[LeaderElector]
}

// NewLeaderHealthzAdaptor returns a HealthzAdaptor that passes timeout to LeaderElector.Check.
func NewLeaderHealthzAdaptor(timeout time.Duration) *HealthzAdaptor {
	return &HealthzAdaptor{timeout: timeout}
}

// SetLeaderElection says which LeaderElector it checks. Before that, the check passes.
func (l *HealthzAdaptor) SetLeaderElection(le *LeaderElector) { l.elector.Store(le) }

// Name is what the check is called.
func (l *HealthzAdaptor) Name() string { return "leaderElection" }

// Check returns the error of LeaderElector.Check.
func (l *HealthzAdaptor) Check(*http.Request) error {
	if le := l.elector.Load(); le != nil {
		return le.Check(l.timeout)
	}
	return nil
}
