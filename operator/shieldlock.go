// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"time"

	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks/multilock"
)

// ShieldOptions say how a leader-for-life lock is migrated. The zero value is
// ready to use.
type ShieldOptions struct {
	// LegacyName is the name of the leader-for-life ConfigMap. Empty means that
	// of the Lease.
	LegacyName string
	Mode       multilock.Mode // empty means multilock.Auto
	// Selector is a label selector for all of the operator's pods, old and new.
	// Empty means that of the workload that this pod belongs to.
	Selector string
	// LegacyGrace is the one rule that trades safety for availability: after so
	// long without a heartbeat of its node, a legacy pod counts as gone, though
	// behind a partition it may work on. Zero means [ownerref.GraceDefault],
	// negative turns it off.
	LegacyGrace time.Duration
	// Settle is the wait for garbage collectors before Kubernetes 1.34. Zero
	// asks the API server for its version.
	Settle time.Duration
	// Version of the program, for people.
	Version string

	LockOptions
}

// ShieldLock returns a lock on the Lease namespace/name that moves an operator
// off its leader-for-life ConfigMap. See [multilock.Shield] for what it does,
// and LeaseLock for cfg and timing. self must be in a pod whose UID is known, in
// the lock's namespace.
func ShieldLock(cfg *rest.Config, timing election.Timing, self Self, namespace, name string, o ShieldOptions) (*multilock.Shield, error) {
	w, err := newWay(cfg, timing, o.LockOptions)
	if err == nil && self.Namespace != "" && self.Namespace != namespace {
		err = fmt.Errorf("the own pod is in namespace %s: legacy pods, the ConfigMap that they own and the candidates' presences are where the Lease is: use that namespace for the lock", self.Namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("making the lock on lease %s/%s and its legacy ConfigMap: %w", namespace, name, err)
	}
	return multilock.NewShield(multilock.ShieldConfig{
		Lease: w.lease(namespace, name), Core: w.core, Apps: w.apps,
		LegacyName: o.LegacyName, Mode: o.Mode,
		Candidate: self.Candidate(), Pod: self.owner(),
		Version: o.Version, Selector: o.Selector, LegacyGrace: o.LegacyGrace, Settle: o.Settle,
		Timing: timing,
	})
}
