// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ctrlruntime gives a manager of controller-runtime its election by zonelect, for
// controller-runtime v0.22 to v0.25. Anything that needs no leader, such as webhooks, runs on all
// replicas as before.
//
//   - NewLasting returns a manager that goes on when leadership is lost. Start here. It needs v0.25.
//   - NewManager returns one that ends then, so that the process ends, as controller-runtime's does.
//     Call it instead of controller-runtime's, and change nothing else.
package ctrlruntime

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/zonelect/zonelect/operator"
	"github.com/zonelect/zonelect/operator/prometheus"
)

// Manager is a manager whose Start also takes part in the election.
type Manager struct {
	manager.Manager

	// Election is the election that the manager takes part in; nil if LeaderElection is off.
	// Only Start may run it.
	Election *operator.Election

	bridge  *bridge
	config  *rest.Config
	options ctrl.Options
}

// NewManager returns a manager as controller-runtime's NewManager does, with its
// LeaderElection by zonelect. LeaderElectionID, LeaderElectionNamespace and
// LeaderElectionConfig of options keep their meaning. So do LeaseDuration, RenewDeadline and
// RetryPeriod (zonelect's RenewInterval) where they are set and those of o are not.
// LeaderElectionResourceLock counts if o's Legacy has no ResourceLock. LeaderElectionLabels are set on
// the Lease with those of o.
// LeaderElectionReleaseOnCancel has no meaning: the lease is always released when all work
// has stopped.
//
// The election's metrics are in controller-runtime's registry, so the manager's own endpoint shows
// them, unless o has a MeterProvider. With that of go.opentelemetry.io/otel/metric/noop there are
// none.
//
// It refuses options that it cannot honor: a LeaderElectionResourceLockInterface, a resource
// lock without a Lease, and a GracefulShutdownTimeout of zero, with which a manager does not
// tell whether its work has stopped, so that no lease could be released. Without
// LeaderElection it returns controller-runtime's manager unchanged, unless a flag of o says
// that there is an election: then it returns an error.
func NewManager(config *rest.Config, options ctrl.Options, o operator.Options) (*Manager, error) {
	m := &Manager{config: config, options: options}
	var err error
	if m.Election, err = elect(config, options, o); err != nil {
		return nil, err
	}
	if m.Election != nil {
		m.bridge = newBridge(m.Election)
		options.LeaderElectionResourceLockInterface = m.bridge
		lease, retry := bridgeLeaseDuration, bridgeRetryPeriod
		deadline, err := renewDeadline(m.Election.Timing().StopGrace)
		if err != nil {
			return nil, fmt.Errorf("the manager's election: %w", err)
		}
		options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = &lease, &deadline, &retry
	}
	m.Manager, err = ctrl.NewManager(config, options)
	return m, err
}

// elect makes the election that options ask for; nil if they ask for none.
func elect(config *rest.Config, options ctrl.Options, o operator.Options) (*operator.Election, error) {
	if !options.LeaderElection {
		if o.ElectionByFlag() {
			return nil, errors.New("LeaderElection of ctrl.Options is false, but --leader-elect of operator.Options says that there is an " +
				"election: set LeaderElection to true; or, if the program has its own --leader-elect for it, call AddFlags or AddGoFlags " +
				"after that is defined, so that both are one flag")
		}
		return nil, nil
	}
	if grace := options.GracefulShutdownTimeout; grace != nil && *grace == 0 {
		return nil, errors.New("GracefulShutdownTimeout is 0: the manager would not tell whether its work has stopped when it is to " +
			"release the lease; set another, or a negative one to wait forever")
	}
	if options.LeaderElectionResourceLockInterface != nil {
		return nil, errors.New("LeaderElectionResourceLockInterface is set, but zonelect brings its own lock: leave it nil, or call " +
			"ctrl.NewManager, whose election is client-go's")
	}
	o.Config = cmp.Or(o.Config, options.LeaderElectionConfig, config)
	o.Namespace = cmp.Or(o.Namespace, options.LeaderElectionNamespace)
	o.Legacy.ResourceLock = cmp.Or(o.Legacy.ResourceLock, options.LeaderElectionResourceLock)
	o.Labels = joined(options.LeaderElectionLabels, o.Labels)
	if o.Logger.GetSink() == nil {
		if o.Logger = options.Logger; o.Logger.GetSink() == nil {
			o.Logger = ctrl.Log
		}
		o.Logger = o.Logger.WithName("leaderelection")
	}
	var err error
	if o.MeterProvider == nil {
		if o.MeterProvider, err = prometheus.NewProvider(metrics.Registry); err != nil {
			return nil, err
		}
	}
	o.Timing.LeaseDuration = cmp.Or(o.Timing.LeaseDuration, ptr.Deref(options.LeaseDuration, 0))
	o.Timing.RenewDeadline = cmp.Or(o.Timing.RenewDeadline, ptr.Deref(options.RenewDeadline, 0))
	o.Timing.RenewInterval = cmp.Or(o.Timing.RenewInterval, ptr.Deref(options.RetryPeriod, 0))
	e, err := operator.New(logr.NewContext(context.Background(), o.Logger), options.LeaderElectionID, o)
	if err != nil {
		return nil, fmt.Errorf("the manager's election: %w", err)
	}
	return e, nil
}

// joined are the manager's labels and the election's own, which win.
func joined(managers, own map[string]string) map[string]string { return labels.Merge(managers, own) }

// Start runs the manager and its part in the election until ctx ends or
// leadership is lost, as controller-runtime's Start does. The process should end
// when it returns.
//
// The lease is kept while the manager stops, for up to GracefulShutdownTimeout, which
// replaces StopTimeout here. StopGrace and ExitOnOverrun apply to a lost leadership. The
// lease is released when the manager has stopped with all its runnables. If the manager
// returns an error, something may still run, so the lease is left to expire. A leadership
// that is lost while nobody has asked the manager to stop is the error election.ErrLost, beside
// controller-runtime's.
func (m *Manager) Start(ctx context.Context) error {
	if m.bridge == nil {
		return m.Manager.Start(ctx)
	}
	return m.bridge.run(ctx, m.Manager.Start)
}

// GuardedClient returns a client like GetClient's that writes only while this process leads:
// see operator.GuardConfig. It is for reconcilers, not for webhooks and other code that runs
// without leadership. Without LeaderElection it returns GetClient's.
func (m *Manager) GuardedClient() (client.Client, error) {
	return guardedClient(m.Manager, m.Election, m.config, m.options)
}

func guardedClient(m manager.Manager, e *operator.Election, config *rest.Config, options ctrl.Options) (client.Client, error) {
	if e == nil {
		return m.GetClient(), nil
	}
	config, err := operator.GuardConfig(config, e.Term)
	if err != nil {
		return nil, err
	}
	build, with := options.NewClient, options.Client
	if build == nil {
		build = client.New
	}
	with.HTTPClient, with.Scheme, with.Mapper = nil, m.GetScheme(), m.GetRESTMapper()
	cached := client.CacheOptions{}
	if with.Cache != nil {
		cached = *with.Cache
	}
	if cached.Reader == nil {
		cached.Reader = m.GetCache()
	}
	with.Cache = &cached
	guarded, err := build(config, with)
	if err != nil {
		return nil, fmt.Errorf("making a guarded client: %w", err)
	}
	return guarded, nil
}
