// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks/multilock"
)

// ShieldLock returns a lock on the Lease namespace/name that moves an operator
// off its leader-for-life ConfigMap. See [multilock.Shield] for what it does,
// and LeaseLock for cfg and timing; the LegacyKind in m has no meaning. self must be in a pod whose UID is known, in
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
		Lease: clients.lease(namespace, name), Core: clients.core, Apps: clients.apps,
		LegacyName: m.LegacyName, Mode: m.Mode, LegacyPodOptions: m.LegacyPodOptions, Settle: m.Settle,
		Candidate: self.Candidate(), Pod: self.owner(), Version: o.Version, Timing: timing,
	})
}
