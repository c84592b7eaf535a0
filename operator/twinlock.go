// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks/annotation"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// TwinOptions say which annotation lock is migrated, and how.
type TwinOptions struct {
	// Kind of the object that has the annotation. Required.
	Kind annotation.Kind
	// LegacyName is the object's name. Empty means that of the Lease.
	LegacyName string
	Mode       multilock.Mode // empty means multilock.Auto
	// Version of the program, for people.
	Version string

	LockOptions
}

// TwinLock returns a lock on the Lease namespace/name that moves an operator off
// client-go's old lock on an annotation, while programs run that know only that.
// See [multilock.Twin] for what it does, and LeaseLock for cfg and timing. Where
// self is in no pod of that namespace whose UID is known, neither tools nor other
// candidates know of this one.
func TwinLock(cfg *rest.Config, timing election.Timing, self Self, namespace, name string, o TwinOptions) (*multilock.Twin, error) {
	w, err := newWay(cfg, timing, o.LockOptions)
	if err != nil {
		return nil, fmt.Errorf("making the lock on lease %s/%s and its legacy %s: %w", namespace, name, o.Kind, err)
	}
	return multilock.NewTwin(multilock.TwinConfig{
		Lease: w.lease(namespace, name), Core: w.core,
		Kind: o.Kind, LegacyName: o.LegacyName, Mode: o.Mode,
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
