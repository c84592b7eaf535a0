// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package multilock

import (
	"github.com/zonelect/zonelect/locks/multilock/internal/candidate"
	"github.com/zonelect/zonelect/locks/multilock/leaseonly"
	"github.com/zonelect/zonelect/locks/multilock/shield"
	"github.com/zonelect/zonelect/locks/multilock/twin"
)

// Mode says how a candidate takes part in a migration.
type Mode = candidate.Mode

// The modes of a candidate.
const (
	// Auto follows the phase on record: the candidate holds both locks until the
	// phase says that the Lease alone counts.
	Auto = candidate.Auto
	// Dual always holds both, and does not campaign in later phases.
	Dual = candidate.Dual
	// Alone is the mode in the presence object of a [LeaseOnly], which takes no part in a
	// migration.
	Alone = candidate.Alone
)

// Config is the part of the configuration that every lock of this package has, and the
// whole configuration of a [LeaseOnly]. [ShieldConfig] and [TwinConfig] embed it.
type Config = candidate.Config

// Shield is the lock of a program that replaces a leader-for-life ConfigMap.
type Shield = shield.Lock

// ShieldConfig is the configuration of a [Shield].
type ShieldConfig = shield.Config

// NewShield returns the lock that c describes, or an error that lists what is
// wrong with c. It does no I/O.
func NewShield(c ShieldConfig) (*Shield, error) { return shield.New(c) }

// Twin is the lock of a program that replaces client-go's record on an annotation.
type Twin = twin.Lock

// TwinConfig is the configuration of a [Twin].
type TwinConfig = twin.Config

// NewTwin returns the lock that c describes, or an error that lists what is wrong
// with c. It does no I/O.
func NewTwin(c TwinConfig) (*Twin, error) { return twin.New(c) }

// LeaseOnly is the lock of a program that takes no part in a migration.
type LeaseOnly = leaseonly.Lock

// NewLeaseOnly returns the lock that c describes, or an error that lists what is
// wrong with c. It does no I/O.
func NewLeaseOnly(c Config) (*LeaseOnly, error) { return leaseonly.New(c) }

// CheckTaking and CheckNoLegacy are what a LeaseOnly checks, for a lock of another kind that
// knows a Lease alone.
var (
	CheckTaking   = leaseonly.CheckTaking
	CheckNoLegacy = leaseonly.CheckNoLegacy
)

// How long a shield waits for an old garbage collector, and from which version on it need
// not; see ShieldConfig.Settle.
const (
	SettleDefault      = shield.SettleDefault
	PreconditionsSince = shield.PreconditionsSince
)

// UnknownHolder is the prefix of the holder if the two locks of a [Twin] have different
// holders. client-go's MultiLock uses the same.
const UnknownHolder = twin.UnknownHolder

// The errors that end a term, or refuse one.
var (
	// ErrLegacy says that a [Shield] has lost the legacy lock: a legacy pod has taken it,
	// or the ConfigMap is not the one that this candidate put there.
	ErrLegacy = shield.ErrLegacy
	// ErrPodGone says that this candidate's pod no longer exists, so that others cannot
	// know that this process still runs.
	ErrPodGone = candidate.ErrPodGone
	// ErrPhase says that the phase on record keeps this kind of candidate out.
	ErrPhase = candidate.ErrPhase
)
