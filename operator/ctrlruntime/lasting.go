// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ctrlruntime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/operator"
)

// Lasting is a manager that goes on when leadership is lost. Its cache, webhooks, probes, metrics and
// whatever else needs no leader belong to the process. Its controllers belong to a term: the functions
// given to Lead set them up when it begins, and they stop when it ends.
//
// A process that led keeps the informers of its controllers. The client of a term's manager writes
// only while the process leads, as [Manager.GuardedClient] does.
type Lasting struct {
	manager.Manager

	// Election is the election that the manager takes part in; nil if LeaderElection is off.
	// Only Start may run it.
	Election *operator.Election

	guarded  client.Client
	indexing sync.Mutex
	indexes  map[index]*term // that the cache has, and the term that asked for each last; indexing guards it
	setups   []func(ctrl.Manager) error
	trial    *term // of all setups together, whose controllers warm up
	started  atomic.Bool
}

// NewLasting returns a manager as [NewManager] does, with the same meaning of options, but one that
// goes on when leadership is lost. Controllers, and whatever else needs the leader, are added in
// functions given to [Lasting.Lead]. The rest is added to the manager itself. It needs
// controller-runtime v0.25 or newer, whose queues hand out nothing once they are shut down, and returns
// an error if the program is built with an older one.
//
// When a term is lost, its controllers have StopGrace to stop. If they take longer, the process ends:
// ExitOnOverrun of o is always set. When the process ends or gives up leadership in good order, they
// have GracefulShutdownTimeout, unless StopTimeout of o's Timing is set. The release follows. It has
// up to RenewDeadline, so that Start may return as much later.
func NewLasting(config *rest.Config, options ctrl.Options, o operator.Options) (*Lasting, error) {
	if err := newEnough(debug.ReadBuildInfo()); err != nil {
		return nil, err
	}
	m := &Lasting{indexes: map[index]*term{}}
	o.ExitOnOverrun = true
	o.Timing.StopTimeout = cmp.Or(o.Timing.StopTimeout, patience(options.GracefulShutdownTimeout))
	var err error
	if m.Election, err = elect(config, options, o); err != nil {
		return nil, err
	}
	options.LeaderElection, options.LeaderElectionConfig = false, nil
	if grace := options.GracefulShutdownTimeout; m.Election != nil && (grace == nil || *grace > 0) {
		t := m.Election.Timing()
		both := t.StopTimeout + t.RenewDeadline // the controllers', and the release
		options.GracefulShutdownTimeout = &both
	}
	if m.Manager, err = ctrl.NewManager(config, options); err != nil {
		return nil, err
	}
	if m.guarded, err = guardedClient(m.Manager, m.Election, config, options); err != nil {
		return nil, err
	}
	return m, m.Manager.Add(everywhere(m.campaign))
}

// errTooOld is why NewLasting makes no manager.
var errTooOld = errors.New("NewLasting needs controller-runtime v0.25.0 or newer, because older queues hand out requests after they " +
	"were shut down, or never shut down: upgrade it, or use NewManager")

// newEnough returns errTooOld if a program was built with an older controller-runtime. Some builds do not
// say with which one they were.
func newEnough(build *debug.BuildInfo, told bool) error {
	if !told {
		return nil
	}
	for _, m := range build.Deps {
		if m.Path != "sigs.k8s.io/controller-runtime" {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		if v, err := version.ParseSemantic(m.Version); err == nil && v.LessThan(version.MustParseSemantic("v0.25.0")) {
			return fmt.Errorf("%w (this is %s)", errTooOld, m.Version)
		}
	}
	return nil
}

// patience is a GracefulShutdownTimeout as a StopTimeout, which has a limit; zero if there is none.
func patience(grace *time.Duration) time.Duration {
	if d := ptr.Deref(grace, 0); d >= 0 {
		return d
	}
	return 365 * 24 * time.Hour
}

// Gate returns a reconciler that does nothing once its context has ended. A controller of a term needs
// it if its queue hands out what it holds even then: a queue of one's own (NewQueue), or that of
// UsePriorityQueue: false. The default queue of controller-runtime v0.25 does not. It is as safe for
// concurrent use as r is.
func Gate[R comparable](r reconcile.TypedReconciler[R]) reconcile.TypedReconciler[R] {
	return reconcile.TypedFunc[R](func(ctx context.Context, request R) (reconcile.Result, error) {
		if ctx.Err() != nil {
			return reconcile.Result{}, nil
		}
		return r.Reconcile(ctx, request)
	})
}

// everywhere is a runnable that needs no leadership.
type everywhere func(context.Context) error

func (e everywhere) Start(ctx context.Context) error { return e(ctx) }

// NeedLeaderElection says no.
func (everywhere) NeedLeaderElection() bool { return false }

// Lead has setup called at the beginning of each term with a manager of that term, to which it adds
// controllers and other runnables that need the leader. Call Lead before Start. Make reconcilers in
// setup: one that is made outside remembers in each term what it did in those before.
//
// Lead calls setup twice itself, and Start calls all setups once together, to see that they can be
// called again: what they add then never leads, and handlers are removed at once. Goroutines that setup
// starts run each time. Lead and Start return an error if setup does, or if something in it cannot be
// repeated: the registration of webhooks, probes and metrics, and runnables that need no leader, all
// of which belong to the manager itself; or an index that two setups make. The first call that indexes
// a field wins, so its function must not depend on the term. Informers and their indexes stay: a term
// cannot remove one.
//
// A reconciler that ignores its context goes on when the term has ended, up to StopGrace, but none
// begins: see [Gate] for queues other than the default one.
//
// If setup returns an error in a term, or a controller does, the term ends and the lease is released.
// This process campaigns again after a second, then after longer. At the fifth time in a row Start
// returns the error.
func (m *Lasting) Lead(setup func(ctrl.Manager) error) error {
	if m.started.Load() {
		return errors.New("Lead is called after Start: call it before, so that the first term has the controllers too")
	}
	if _, err := m.rehearse(false, setup); err != nil {
		return err
	}
	if _, err := m.rehearse(true, setup); err != nil {
		return fmt.Errorf("the function given to Lead is called for each term, and fails the second time: %w", err)
	}
	m.setups = append(m.setups, setup)
	return nil
}

// rehearse calls setups with the manager of a term that does not begin. Nothing hears of the handlers that
// they have added.
func (m *Lasting) rehearse(again bool, setups ...func(ctrl.Manager) error) (t *term, err error) {
	t = m.newTerm(again)
	defer t.close()
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("panic: %v", why)
		}
	}()
	return t, t.setUp(setups...)
}

// Add adds a runnable that needs no leader. Others belong to a term: see Lead.
func (m *Lasting) Add(r manager.Runnable) error {
	if needsLeader(r) {
		return fmt.Errorf("%T needs the leader, and this manager outlives its terms: add it in a function given to Lead; "+
			"if it is to run on all replicas, give it a NeedLeaderElection that returns false", r)
	}
	return m.Manager.Add(r)
}

// Elected returns a channel that is never closed with LeaderElection, because no leadership lasts as
// long as this manager, and logs that. That of a term's manager is closed.
func (m *Lasting) Elected() <-chan struct{} {
	if m.Election == nil {
		return m.Manager.Elected()
	}
	m.GetLogger().Error(nil, "Elected of a manager that outlives its terms is never closed: add what waits for it in a function given to Lead")
	return nil
}

// Start runs the manager and its part in the election until ctx ends. It returns nil then, and an
// error if the manager cannot go on: a lost term is none.
func (m *Lasting) Start(ctx context.Context) (err error) {
	m.started.Store(true)
	if m.trial, err = m.rehearse(true, m.setups...); err != nil {
		return fmt.Errorf("the functions given to Lead fail together: %w", err)
	}
	return m.Manager.Start(ctx)
}

// inARow is how many terms in a row may end with an error.
const inARow = 5

// longTerm is how long a term lasts after which an error is not one in a row.
const longTerm = 10 * time.Minute

// campaign takes part in the election, once the caches have synced.
func (m *Lasting) campaign(ctx context.Context) error {
	if err := m.warmUp(ctx); err != nil {
		return err
	}
	if m.Election == nil {
		return m.lead(ctx, election.Term{})
	}
	failed := 0 // terms in a row
	for {
		err := m.Election.Run(ctx, func(ctx context.Context, t election.Term) error {
			began := time.Now()
			err := m.lead(ctx, t)
			if err == nil || time.Since(began) > longTerm {
				failed = 0
			}
			return err
		})
		if !errors.Is(err, errTerm) || ctx.Err() != nil {
			return err
		}
		if failed++; failed == inARow {
			return fmt.Errorf("%d terms in a row: %w", failed, err)
		}
		wait := time.Second << (failed - 1)
		m.GetLogger().Error(err, "a term has ended with an error: this process campaigns again", "after", wait, "failed", failed)
		if sleep.For(ctx, wait) != nil {
			return nil
		}
	}
}

// errTerm is why a term ended: its controllers could not be set up, or one of them failed.
var errTerm = errors.New("setting up the controllers of a term, or running them")

// warmUp starts the sources of controllers with EnableWarmup, so that their informers have synced when
// the first term begins, and stops them again. The informers stay.
func (m *Lasting) warmUp(ctx context.Context) error {
	t := m.trial
	m.trial = nil
	defer t.begin(ctx)()
	var all errgroup.Group
	for _, r := range t.runnables {
		if w, warms := r.(interface {
			Warmup(ctx context.Context) error
		}); warms {
			all.Go(func() error { return w.Warmup(t.ctx) })
		}
	}
	return all.Wait()
}

// lead is one term.
func (m *Lasting) lead(ctx context.Context, _ election.Term) error {
	t := m.newTerm(true)
	defer t.begin(ctx)()
	err := t.setUp(m.setups...)
	if err == nil {
		err = t.sync()
	}
	if err == nil {
		err = t.run()
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", errTerm, err)
	}
	return nil
}
