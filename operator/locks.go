// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// LockOptions say more about a lock and how to reach it. The zero value is ready to
// use.
type LockOptions struct {
	// Servers are URLs of the API server, nearest first, used instead of the config's Host.
	// All have the same scheme and path, lead to the same cluster, and accept the same
	// credentials. More than one cannot be used through a proxy.
	Servers []string
	// Labels are set on the Lease and on whatever else the election creates: the candidate's
	// presence object, a heartbeat's Lease, the legacy object in ModeDual, and the EndpointSlice
	// of LeaderService. Others on them are kept. None may begin with zonelect.dev/. Events have
	// no labels.
	Labels map[string]string
	// Version of the program, for people. The candidate's presence object carries it, if the
	// lock has one.
	Version string
	// Logger gets the messages that people should see. The zero value drops them; in
	// [Options] the zero value means the logger in the context, or else that of slog.Default,
	// which writes to stderr unless the program says otherwise. To drop that log too, use
	// logr.FromSlogHandler(slog.DiscardHandler).
	Logger logr.Logger

	// goesFirst says on the presence object how the candidate finds its head start. Options
	// fill it in.
	goesFirst string
}

// LeaseLock returns a lock on the Lease namespace/name, on connections of its own that serve
// this lock alone: no rate limit, no retries, and dead connections are left within
// timing.AttemptTimeout. cfg says where the API server is and how to authenticate; it is not
// changed. Its Timeout, QPS, Burst and content types have no meaning here. timing is that of
// the election that will use the lock; zero fields have their defaults.
//
// It does no I/O except to read the files that cfg names.
func LeaseLock(cfg *rest.Config, timing election.Timing, namespace, name string, o LockOptions) (*lease.Lock, error) {
	clients, err := newAPIClients(cfg, timing, o)
	if err != nil {
		return nil, fmt.Errorf("making the lock on lease %s/%s: %w", namespace, name, err)
	}
	return lease.New(clients.lease(namespace, name))
}

// LeaseOnlyLock returns a lock on the Lease namespace/name, as LeaseLock does, that does not
// campaign where a legacy lock counts too, and keeps a presence object. If self is in no pod
// of that namespace with a known UID, there is no presence object, so that neither tools nor
// other candidates know of this one.
func LeaseOnlyLock(cfg *rest.Config, timing election.Timing, self Self, namespace, name string, o LockOptions) (*multilock.LeaseOnly, error) {
	clients, err := newAPIClients(cfg, timing, o)
	if err != nil {
		return nil, fmt.Errorf("making the lock on lease %s/%s: %w", namespace, name, err)
	}
	return multilock.NewLeaseOnly(clients.multilock(timing, self, namespace, name))
}

// ShieldLock returns a lock on the Lease namespace/name that moves an operator off its
// leader-for-life ConfigMap. See [multilock.Shield] for what it does, and LeaseLock for cfg
// and timing; the LegacyKind in m has no meaning. self must be in a pod with a known UID, in
// the lock's namespace.
func ShieldLock(cfg *rest.Config, timing election.Timing, self Self, namespace, name string, m MigrationOptions, o LockOptions) (*multilock.Shield, error) {
	clients, err := newAPIClients(cfg, timing, o)
	if err == nil && self.Namespace != "" && self.Namespace != namespace {
		err = fmt.Errorf("the own pod is in namespace %s: legacy pods, the ConfigMap that they own and the candidates' presences are where the Lease is: use that namespace for the lock", self.Namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("making the lock on lease %s/%s and its legacy ConfigMap: %w", namespace, name, err)
	}
	return multilock.NewShield(multilock.ShieldConfig{
		Config: clients.multilock(timing, self, namespace, name), Apps: clients.apps,
		LegacyName: m.LegacyName, Mode: m.Mode, LegacyPodOptions: m.LegacyPodOptions, Settle: m.Settle,
	})
}

// TwinLock returns a lock on the Lease namespace/name that moves an operator off client-go's
// old lock on an annotation, while programs run that know only that lock. See
// [multilock.Twin] for what it does, and LeaseLock for cfg and timing. The LegacyKind in m
// must be LegacyConfigMap or LegacyEndpoints; the pod options in m, and its Settle, have no
// meaning. If self is in no pod of that namespace with a known UID, neither tools nor other
// candidates know of this one.
func TwinLock(cfg *rest.Config, timing election.Timing, self Self, namespace, name string, m MigrationOptions, o LockOptions) (*multilock.Twin, error) {
	clients, err := newAPIClients(cfg, timing, o)
	kind, elected := annotated[m.LegacyKind]
	if err == nil && !elected {
		err = fmt.Errorf("legacy kind %q has no election record: use %s or %s", m.LegacyKind, LegacyConfigMap, LegacyEndpoints)
	}
	if err != nil {
		return nil, fmt.Errorf("making the lock on lease %s/%s and its legacy %s: %w", namespace, name, m.LegacyKind, err)
	}
	return multilock.NewTwin(multilock.TwinConfig{
		Config: clients.multilock(timing, self, namespace, name),
		Kind:   kind, LegacyName: m.LegacyName, Mode: m.Mode,
	})
}

// multilock returns the configuration that every lock of that package needs.
func (c *apiClients) multilock(timing election.Timing, self Self, namespace, name string) multilock.Config {
	return multilock.Config{
		Lease: c.lease(namespace, name), Core: c.core,
		Candidate: self.Candidate(), Pod: self.podIn(namespace), Version: c.options.Version, Timing: timing, HeadStart: c.options.goesFirst,
	}
}

// podIn returns this process's pod, or none if it is not in that namespace: the garbage
// collector would delete what it owned elsewhere.
func (s Self) podIn(namespace string) ownerref.Owner {
	if s.Namespace != "" && s.Namespace != namespace {
		return ownerref.Owner{}
	}
	return ownerref.Owner{Kind: ownerref.Pod, Name: s.PodName, UID: types.UID(s.PodUID)}
}
