// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"fmt"
	"time"

	"github.com/zonelect/zonelect/locks/annotation"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// Mode says which locks are held.
type Mode = multilock.Mode

// The modes.
const (
	// ModeLease holds a Lease and nothing else: for operators that never had
	// another lock, or have left it behind.
	ModeLease = multilock.Alone
	// ModeAuto holds a Lease and the legacy lock, and follows the phase of the
	// migration that the Lease carries: see docs/migration.md.
	ModeAuto = multilock.Auto
	// ModeDual is ModeAuto that goes no further than phase dual.
	ModeDual = multilock.Dual
)

// LegacyKind says what the lock was before it was a Lease.
type LegacyKind string

// The kinds of legacy locks.
const (
	// LegacyLeaderForLife is the ConfigMap of operator-sdk's leader.Become.
	LegacyLeaderForLife LegacyKind = "ownerref"
	// LegacyConfigMap and LegacyEndpoints are client-go's old locks, an
	// annotation on such an object.
	LegacyConfigMap LegacyKind = "configmap"
	LegacyEndpoints LegacyKind = "endpoints"
)

// annotated are the objects whose annotation a legacy lock is.
var annotated = map[LegacyKind]annotation.Kind{LegacyConfigMap: annotation.ConfigMaps, LegacyEndpoints: annotation.Endpoints}

// MigrationOptions say how an operator leaves a legacy lock behind. The zero value is
// ready to use.
type MigrationOptions struct {
	// Mode is which locks are held. Empty means ModeLease in [Options], and ModeAuto
	// for [ShieldLock] and [TwinLock], which have no other modes than ModeAuto and
	// ModeDual. These need to run in a pod that knows its UID, see [WhoAmI].
	Mode Mode
	// LegacyKind, for the modes that hold a legacy lock, is its kind. Empty means
	// LegacyLeaderForLife.
	LegacyKind LegacyKind
	// LegacyName is the legacy lock's name. Empty means that of the Lease.
	LegacyName string
	// What follows is for LegacyLeaderForLife alone.
	ownerref.LegacyPodOptions
	// Settle is how long a candidate waits for a garbage collector before Kubernetes
	// 1.34. Zero asks the API server for its version. Negative means no wait.
	Settle time.Duration
}

// check returns what is wrong with the mode and the kind.
func (o MigrationOptions) check() error {
	var errs []error
	switch o.Mode {
	case "", ModeLease, ModeAuto, ModeDual:
	default:
		errs = append(errs, fmt.Errorf("mode %q is unknown: use %s, %s or %s", o.Mode, ModeLease, ModeAuto, ModeDual))
	}
	switch o.LegacyKind {
	case "", LegacyLeaderForLife, LegacyConfigMap, LegacyEndpoints:
	default:
		errs = append(errs, fmt.Errorf("legacy kind %q is unknown: use %s, %s or %s", o.LegacyKind, LegacyLeaderForLife, LegacyConfigMap, LegacyEndpoints))
	}
	return errors.Join(errs...)
}
