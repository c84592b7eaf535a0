// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks/annotation"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/locks/multilock"
)

// TwinOptions say which annotation lock is held with the Lease.
type TwinOptions struct {
	// Kind of the object that has the annotation. Required.
	Kind annotation.Kind
	// LegacyName is the object's name. Empty means that of the Lease.
	LegacyName string

	LockOptions
}

// TwinLock returns a lock on the Lease namespace/name together with client-go's
// old lock on an annotation, for as long as programs run that know only that.
// See [multilock.Twin] for what it does, and LeaseLock for cfg and timing.
func TwinLock(cfg *rest.Config, timing election.Timing, namespace, name string, o TwinOptions) (*multilock.Twin, error) {
	w, err := newWay(cfg, timing, o.LockOptions)
	if err != nil {
		return nil, fmt.Errorf("making the lock on lease %s/%s and its legacy %s: %w", namespace, name, o.Kind, err)
	}
	governing, err := lease.New(w.lease(namespace, name))
	if err != nil {
		return nil, err
	}
	legacy, err := annotation.New(annotation.Config{
		Client: w.core, Kind: o.Kind, Namespace: namespace, Name: cmp.Or(o.LegacyName, name),
		CloseConnections: w.transport.CloseConnections, Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	return multilock.NewTwin(multilock.TwinConfig{Governing: governing, Legacy: legacy})
}
