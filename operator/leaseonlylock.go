// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks/multilock"
)

// LeaseOnlyLock returns a lock on the Lease namespace/name, as LeaseLock does,
// that does not campaign where a legacy lock counts too, and keeps a presence
// object. Where self is in no pod of that namespace whose UID is known, there is
// none, so that neither tools nor other candidates know of this one.
func LeaseOnlyLock(cfg *rest.Config, timing election.Timing, self Self, namespace, name string, o LockOptions) (*multilock.LeaseOnly, error) {
	clients, err := newAPIClients(cfg, timing, o)
	if err != nil {
		return nil, fmt.Errorf("making the lock on lease %s/%s: %w", namespace, name, err)
	}
	lock, err := multilock.NewLeaseOnly(multilock.LeaseOnlyConfig{
		Lease: clients.lease(namespace, name), Core: clients.core,
		Candidate: self.Candidate(), Pod: self.ownerIn(namespace), Version: o.Version, Timing: timing,
	})
	if err != nil {
		return nil, fmt.Errorf("making the lock: %w", err)
	}
	return lock, nil
}
