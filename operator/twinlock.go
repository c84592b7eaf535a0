// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// TwinLock returns a lock on the Lease namespace/name that moves an operator off
// client-go's old lock on an annotation, while programs run that know only that.
// See [multilock.Twin] for what it does, and LeaseLock for cfg and timing. The
// LegacyKind in m must be LegacyConfigMap or LegacyEndpoints; what m says of pods, and
// its Settle, have no meaning. Where self is in no pod of that namespace whose UID is known, neither tools nor other
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
		Lease: clients.lease(namespace, name), Core: clients.core,
		Kind: kind, LegacyName: m.LegacyName, Mode: m.Mode,
		Candidate: self.Candidate(), Pod: self.ownerIn(namespace), Version: o.Version,
		Timing: timing,
	})
}

// ownerIn returns the own pod, or none where it is not in that namespace: what
// it owned elsewhere would be collected.
func (s Self) ownerIn(namespace string) ownerref.Owner {
	if s.Namespace != "" && s.Namespace != namespace {
		return ownerref.Owner{}
	}
	return s.owner()
}

// owner returns the own pod.
func (s Self) owner() ownerref.Owner {
	return ownerref.Owner{Kind: ownerref.Pod, Name: s.PodName, UID: types.UID(s.PodUID)}
}
