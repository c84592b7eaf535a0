// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ctrlruntime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
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

	guarded   client.Client
	informers *informers
	indexing  sync.Mutex
	indexes   map[index]bool // that the cache has; indexing guards it
	setups    []func(ctrl.Manager) error
	rehearsed []*term // whose controllers warm up
	started   atomic.Bool
}

// NewLasting returns a manager as [NewManager] does, with the same meaning of options, but one that
// goes on when leadership is lost. Controllers, and whatever else needs the leader, are added in
// functions given to [Lasting.Lead]. The rest is added to the manager itself.
//
// When a term is lost, its controllers have StopGrace to stop. If they take longer, the process ends:
// ExitOnOverrun of o is always set. When the process ends or gives up leadership in good order, they
// have GracefulShutdownTimeout, unless StopTimeout of o's Timing is set.
func NewLasting(config *rest.Config, options ctrl.Options, o operator.Options) (*Lasting, error) {
	m := &Lasting{informers: newInformers(), indexes: map[index]bool{}}
	o.ExitOnOverrun = true
	use(&o.Timing.StopTimeout, patience(options.GracefulShutdownTimeout))
	var err error
	if m.Election, err = elect(config, options, o); err != nil {
		return nil, err
	}
	options.LeaderElection, options.LeaderElectionConfig = false, nil
	options.Cache.NewInformer = m.informers.maker(options.Cache.NewInformer)
	if m.Manager, err = ctrl.NewManager(config, options); err != nil {
		return nil, err
	}
	m.informers.log = m.GetLogger().WithName("cache")
	if m.guarded, err = guardedClient(m.Manager, m.Election, config, options); err != nil {
		return nil, err
	}
	return m, m.Manager.Add(everywhere(m.campaign))
}

// patience is a GracefulShutdownTimeout as a StopTimeout, which has a limit.
func patience(grace *time.Duration) *time.Duration {
	if grace != nil && *grace < 0 {
		year := 365 * 24 * time.Hour
		return &year
	}
	return grace
}

// everywhere is a runnable that needs no leadership.
type everywhere func(context.Context) error

func (e everywhere) Start(ctx context.Context) error { return e(ctx) }

// NeedLeaderElection says no.
func (everywhere) NeedLeaderElection() bool { return false }

// Lead has setup called at the beginning of each term with a manager of that term, to which it adds
// controllers and other runnables that need the leader. SetupWithManager of a reconciler is such a
// function. Call Lead before Start.
//
// Lead calls setup twice itself, to see that it can be called again: what it adds then never runs.
// It returns an error if setup does, or if something in it cannot be repeated: the registration of
// webhooks, probes and metrics, and runnables that need no leader, all of which belong to the manager
// itself; a source.Channel made outside of setup, or a source on another cache; a metric of a name
// that is registered already. The first call that indexes a field wins, so its function must not
// depend on the term.
//
// A reconciler that ignores its context goes on when the term has ended, up to StopGrace, but none
// begins. For requests of a type of one's own, setup passes the reconciler through [Gate].
//
// If setup returns an error in a term, or a controller does, the term ends and the lease is released.
// This process campaigns again after a second, then after longer. At the fifth time in a row Start
// returns the error.
func (m *Lasting) Lead(setup func(ctrl.Manager) error) error {
	if m.started.Load() {
		return errors.New("Lead is called after Start: call it before, so that the first term has the controllers too")
	}
	first, err := m.rehearse(setup, false)
	if err != nil {
		return err
	}
	second, err := m.rehearse(setup, true)
	if err == nil {
		err = first.shares(second)
	}
	if err != nil {
		return fmt.Errorf("the function given to Lead is called for each term, and fails the second time: %w", err)
	}
	m.setups = append(m.setups, setup)
	m.rehearsed = append(m.rehearsed, second)
	return nil
}

// rehearse calls setup with the manager of a term that never begins.
func (m *Lasting) rehearse(setup func(ctrl.Manager) error, again bool) (t *term, err error) {
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("panic: %v", why)
		}
	}()
	t = m.newTerm(again)
	return t, t.setUp(setup)
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
// long as this manager. That of a term's manager is closed.
func (m *Lasting) Elected() <-chan struct{} {
	if m.Election == nil {
		return m.Manager.Elected()
	}
	return nil
}

// Start runs the manager and its part in the election until ctx ends. It returns nil then, and an
// error if the manager cannot go on: a lost term is none.
func (m *Lasting) Start(ctx context.Context) error {
	m.started.Store(true)
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
	go m.wakeInformers(m.Election.Subscribe(ctx))
	pause := backoff.NewExponentialBackOff(backoff.WithInitialInterval(time.Second), backoff.WithMaxInterval(time.Minute), backoff.WithMaxElapsedTime(0))
	for failed := 1; ; failed++ {
		var began time.Time
		err := m.Election.Run(ctx, func(ctx context.Context, t election.Term) error {
			began = time.Now()
			return m.lead(ctx, t)
		})
		if !errors.Is(err, errTerm) || ctx.Err() != nil {
			return err
		}
		if time.Since(began) > longTerm {
			failed = 1
			pause.Reset()
		}
		if failed == inARow {
			return fmt.Errorf("%d terms in a row: %w", failed, err)
		}
		wait := pause.NextBackOff()
		m.GetLogger().Error(err, "a term has ended with an error: this process campaigns again", "after", wait, "failed", failed)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
	}
}

// errTerm is why a term ended: its controllers could not be set up, or one of them failed.
var errTerm = errors.New("setting up the controllers of a term, or running them")

// wakeInformers has requests that failed be tried again at once when the election hears from the API
// again.
func (m *Lasting) wakeInformers(transitions <-chan election.Transition) {
	for t := range transitions {
		if t.Change == status.ChangeResolved || t.Change == status.ChangeLeading {
			m.informers.wake()
		}
	}
}

// warmUp starts the sources of controllers with EnableWarmup, so that their informers have synced when
// the first term begins, and stops them again. The informers stay. A controller with a source.Channel
// is left out, because that would take events out of the channel.
func (m *Lasting) warmUp(ctx context.Context) error {
	rehearsed := m.rehearsed
	m.rehearsed = nil
	var all errgroup.Group
	for _, t := range rehearsed {
		defer t.begin(ctx)()
		for _, r := range t.runnables {
			if w, warms := r.(interface {
				Warmup(ctx context.Context) error
			}); warms && !slices.ContainsFunc(sourcesOf(r), isChannel) {
				all.Go(func() error { return w.Warmup(t.ctx) })
			}
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
		err = m.informers.hear(ctx, m.syncTimeout())
	}
	if err == nil {
		err = t.run()
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", errTerm, err)
	}
	return nil
}

// syncTimeout is how long caches may take to sync.
func (m *Lasting) syncTimeout() time.Duration {
	if d := m.GetControllerOptions().CacheSyncTimeout; d > 0 {
		return d
	}
	return 2 * time.Minute // controller-runtime's default
}
