// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderelection

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"time"

	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/zonelect/zonelect/internal/environment"
	"github.com/zonelect/zonelect/operator"
)

// ErrConfig is wrapped by errors about a LeaderElectionConfig.
var ErrConfig = errors.New("leader election config")

// LeaderElectionConfig says how to take part in an election. Its fields are those of client-go, and
// Options.
type LeaderElectionConfig struct { //nolint:revive // client-go's name
	// Lock is a *resourcelock.LeaseLock. resourcelock.New returns one.
	Lock resourcelock.Interface
	// LeaseDuration is how long other candidates wait for a silent leader before they take the lock.
	LeaseDuration time.Duration
	// RenewDeadline is how long the leader goes on without an acknowledged renewal.
	RenewDeadline time.Duration
	// RetryPeriod is how often the leader renews.
	RetryPeriod time.Duration
	// Callbacks are called as leadership changes.
	Callbacks LeaderCallbacks
	// WatchDog is told of the LeaderElector by RunOrDie. Nil means none.
	WatchDog *HealthzAdaptor
	// ReleaseOnCancel releases the lock when the context of Run ends. Whoever ends it promises that
	// the work has stopped, or that OnStartedLeading returns when it has.
	ReleaseOnCancel bool
	// Name has no meaning here.
	Name string
	// Coordinated must be false.
	Coordinated bool

	// Options are what client-go has not. The zero value is ready to use. Its Name, Namespace,
	// Self.Identity and the LeaseDuration, RenewDeadline and RenewInterval of its Timing must be zero,
	// because the fields above and the lock say that.
	Options operator.Options
}

// LeaderCallbacks are called as leadership changes. Those that start and stop the work must be there.
type LeaderCallbacks struct {
	// OnStartedLeading is called in a goroutine when this process begins to lead. Its context ends
	// when the work must stop.
	OnStartedLeading func(context.Context)
	// OnStoppedLeading is called when the leadership has ended, and when Run ends without any.
	OnStoppedLeading func()
	// OnNewLeader is called with the identity of each new leader, including this process. Calls come
	// one at a time, in a goroutine that Run does not wait for. Nil means none.
	OnNewLeader func(identity string)
}

// options returns the options of the election, or what is wrong with the config.
func (c LeaderElectionConfig) options() (o operator.Options, err error) {
	lock, ours := c.Lock.(*resourcelock.LeaseLock)
	switch {
	case c.Lock == nil || ours && lock == nil:
		return o, fmt.Errorf("%w: Lock is nil", ErrConfig)
	case !ours:
		return o, fmt.Errorf("%w: Lock is a %T: use a *resourcelock.LeaseLock, and Options.Legacy to come from another lock", ErrConfig, c.Lock)
	}
	o = c.Options
	errs := []error{c.refused(lock)}
	said := o.Timing
	o.Timing.LeaseDuration, o.Timing.RenewDeadline, o.Timing.RenewInterval = c.LeaseDuration, c.RenewDeadline, c.RetryPeriod
	o.Timing.StopTimeout = c.patience() + c.RetryPeriod // so that Run stops waiting before the elector does
	if said.LeaseDuration != 0 || said.RenewDeadline != 0 || said.RenewInterval != 0 {
		errs = append(errs, errors.New("Options.Timing sets durations, too: set only LeaseDuration, RenewDeadline and RetryPeriod"))
	}
	if room := c.RenewDeadline - c.RetryPeriod; o.Timing.AttemptTimeout == 0 && room > 0 {
		o.Timing.AttemptTimeout = min(c.RetryPeriod, room) // client-go takes a RetryPeriod of more than half the RenewDeadline
	}
	if err := o.Timing.WithDefaults().Validate(); err != nil {
		errs = append(errs, err)
	}
	if !o.Disabled {
		errs = append(errs, find(&o, lock))
	}
	o.Name, o.Namespace, o.Self.Identity = lock.LeaseMeta.Name, lock.LeaseMeta.Namespace, lock.Identity()
	o.NoEvents = true
	if o.Labels == nil {
		o.Labels = lock.Labels
	}
	if err := errors.Join(errs...); err != nil {
		return o, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return o, nil
}

// refused returns what is wrong with the fields.
func (c LeaderElectionConfig) refused(lock *resourcelock.LeaseLock) error {
	var errs []error
	for _, wrong := range []struct {
		is   bool
		what string
	}{
		{lock.LeaseMeta.Name == "", "the LeaseMeta of Lock has no Name"},
		{lock.LeaseMeta.Namespace == "", "the LeaseMeta of Lock has no Namespace"},
		{lock.Identity() == "", "the LockConfig of Lock has no Identity: it must be unique among the replicas"},
		{c.LeaseDuration <= 0 || c.RenewDeadline <= 0 || c.RetryPeriod <= 0, "LeaseDuration, RenewDeadline and RetryPeriod must be positive"},
		{c.Callbacks.OnStartedLeading == nil, "Callbacks.OnStartedLeading is nil"},
		{c.Callbacks.OnStoppedLeading == nil, "Callbacks.OnStoppedLeading is nil"},
		{c.Coordinated, "Coordinated is set: a coordinator of Kubernetes would choose the leader, so all candidates must be client-go's"},
		{c.Options.Name != "" || c.Options.Namespace != "" || c.Options.Self.Identity != "", "Options name a lock or an identity: Lock does"},
		{c.Options.ExitOnOverrun, "Options.ExitOnOverrun is set: end the process in Callbacks.OnStoppedLeading"},
	} {
		if wrong.is {
			errs = append(errs, errors.New(wrong.what))
		}
	}
	return errors.Join(errs...)
}

// patience is how long Run waits for OnStartedLeading before it releases the lock.
func (c LeaderElectionConfig) patience() time.Duration {
	return cmp.Or(c.Options.Timing.StopTimeout, c.RetryPeriod)
}

// address is where a client sends its requests, without what it adds to each, such as a timeout.
func address(client *coordinationv1.CoordinationV1Client) string {
	u := client.RESTClient().Get().URL()
	u.RawQuery = ""
	return u.String()
}

// find finds the way to the API server of the lock's client.
func find(o *operator.Options, lock *resourcelock.LeaseLock) error {
	client, real := lock.Client.(*coordinationv1.CoordinationV1Client)
	if !real || client == nil {
		return fmt.Errorf("the Client of Lock is a %T, not the one of a clientset that has a server: set Options.Disabled in tests, "+
			"to lead without an election", lock.Client)
	}
	if o.Config == nil {
		path := ""
		if given := flag.Lookup("kubeconfig"); given != nil {
			path = given.Value.String()
		}
		var err error
		if o.Config, err = environment.RESTConfig(path); err != nil {
			return err
		}
	}
	found, err := coordinationv1.NewForConfigAndClient(o.Config, http.DefaultClient) // it sends nothing
	if err != nil {
		return fmt.Errorf("the rest.Config: %w", err)
	}
	if of, to := address(client), address(found); of != to {
		return fmt.Errorf("the Client of Lock belongs to %s, and the rest.Config to %s: set Options.Config to the one that the client "+
			"was made of", of, to)
	}
	return nil
}
