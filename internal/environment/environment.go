// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package environment finds out where and as whom a process takes part in elections, and makes
// locks there.
package environment

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/phase"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/multilock/shield"
	"github.com/zonelect/zonelect/locks/multilock/twin"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// Environment is where and as whom a process takes part in elections. Nobody changes it.
type Environment struct {
	Config    *rest.Config
	Self      Self
	Namespace string            // of the locks
	Timing    timing.Timing     // with its defaults
	Labels    map[string]string // set on all that the elections create
	Logger    logr.Logger
}

// Find finds out what e does not say: the config of the API server, who this process is, and the
// namespace of the locks. It asks the API server only for this node's zone.
func (e Environment) Find(ctx context.Context, known Self) (*Environment, error) {
	var err error
	if e.Config == nil {
		if e.Config, err = RESTConfig(""); err != nil {
			return nil, err
		}
	}
	if e.Self, err = WhoAmI(ctx, e.Config, e.Logger, known); err != nil {
		return nil, err
	}
	if e.Namespace = cmp.Or(e.Namespace, e.Self.Namespace); e.Namespace == "" {
		return nil, errors.New("the namespace of the lock is not known: set --leader-elect-resource-namespace or, in a pod, POD_NAMESPACE")
	}
	return &e, nil
}

// Lease returns the configuration of a lock on the Lease of that name.
func (e *Environment) Lease(c *Clients, name string) lease.Config {
	return lease.Config{
		Client: c.Coordination, Namespace: e.Namespace, Name: name, Labels: e.Labels, Logger: e.Logger,
		Capabilities: locks.Capabilities{CloseConnections: c.Transport.CloseConnections},
	}
}

// Plain returns the lock on the Lease of that name, on connections of its own, that does not
// campaign where a legacy lock counts too (M12), and what shows this candidate to others, which the
// lock's Guardian runs.
func (e *Environment) Plain(name string) (*lease.Lock, *presence.Keeper, error) {
	clients, err := e.Clients()
	if err != nil {
		return nil, nil, fmt.Errorf("making the lock on lease %s/%s: %w", e.Namespace, name, err)
	}
	keeper := e.Keeper(clients, name)
	lock, err := phase.NewLease(e.Lease(clients, name), clients.Core, e.Timing, keeper)
	return lock, keeper, err
}

// Keeper returns what keeps the presence of this process at the lock of that name, if it takes no
// part in a migration.
func (e *Environment) Keeper(c *Clients, name string) *presence.Keeper {
	return presence.NewKeeper(presence.KeeperConfig{
		Client: c.Coordination, Core: c.Core, Namespace: e.Namespace, Labels: e.Labels, Timing: e.Timing, Logger: e.Logger,
		Says: presence.Object{
			Lock: name, Pod: e.Pod(), Identity: e.Self.Identity, Zone: e.Self.Zone, Node: e.Self.Node, Mode: presence.Alone,
		},
	})
}

// Shield returns a lock on the Lease of that name, on connections of its own, that moves an
// operator off its leader-for-life ConfigMap. c has only what is about the migration.
func (e *Environment) Shield(name string, c shield.Config) (*shield.Lock, error) {
	clients, err := e.Clients()
	if own := e.Self.Namespace; err == nil && own != "" && own != e.Namespace {
		err = fmt.Errorf("this pod is in namespace %s: use that for the lock, which must be where the legacy pods and their ConfigMap are", own)
	}
	if err != nil {
		return nil, fmt.Errorf("making the lock on lease %s/%s and its legacy ConfigMap: %w", e.Namespace, name, err)
	}
	c.Config, c.Apps = e.multilock(clients, name), clients.Apps
	return shield.New(c)
}

// Twin returns a lock on the Lease of that name, on connections of its own, that moves an operator
// off client-go's old lock on an annotation. c has only what is about the migration.
func (e *Environment) Twin(name string, c twin.Config) (*twin.Lock, error) {
	clients, err := e.Clients()
	if err != nil {
		return nil, fmt.Errorf("making the lock on lease %s/%s and its legacy %s: %w", e.Namespace, name, c.Kind, err)
	}
	c.Config = e.multilock(clients, name)
	return twin.New(c)
}

// multilock returns the configuration that every lock of that package needs.
func (e *Environment) multilock(c *Clients, name string) multilock.Config {
	return multilock.Config{
		Lease: e.Lease(c, name), Core: c.Core, Candidate: e.Self.Candidate(),
		Pod: ownerref.Owner(e.Pod()), Timing: e.Timing,
	}
}

// Pod returns this process's pod, or none if it is not in the namespace of the locks: the garbage
// collector would delete what it owned elsewhere.
func (e *Environment) Pod() presence.Pod {
	if own := e.Self.Namespace; own != "" && own != e.Namespace {
		return presence.Pod{}
	}
	return presence.Pod{Name: e.Self.PodName, UID: types.UID(e.Self.PodUID)}
}
