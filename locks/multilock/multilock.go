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
	// Dual always holds both, and does not campaign beyond that phase.
	Dual = candidate.Dual
	// Alone is the mode on the presence object of a [LeaseOnly], which takes no part
	// in a migration.
	Alone = candidate.Alone
)

// Config says what every lock of this package is made of, and all that a [LeaseOnly] is
// made of. [ShieldConfig] and [TwinConfig] embed it.
type Config = candidate.Config

// Shield is the lock of a program that replaces a leader-for-life ConfigMap.
type Shield = shield.Lock

// ShieldConfig says what a [Shield] is made of.
type ShieldConfig = shield.Config

// NewShield returns the lock that c describes, or an error that lists what is
// wrong with c. It does no I/O.
func NewShield(c ShieldConfig) (*Shield, error) { return shield.New(c) }

// Twin is the lock of a program that replaces client-go's record on an annotation.
type Twin = twin.Lock

// TwinConfig says what a [Twin] is made of.
type TwinConfig = twin.Config

// NewTwin returns the lock that c describes, or an error that lists what is wrong
// with c. It does no I/O.
func NewTwin(c TwinConfig) (*Twin, error) { return twin.New(c) }

// LeaseOnly is the lock of a program that takes no part in a migration.
type LeaseOnly = leaseonly.Lock

// NewLeaseOnly returns the lock that c describes, or an error that lists what is
// wrong with c. It does no I/O.
func NewLeaseOnly(c Config) (*LeaseOnly, error) { return leaseonly.New(c) }

// What a shield waits for where the garbage collector is an old one; see
// ShieldConfig.Settle.
const (
	SettleDefault      = shield.SettleDefault
	PreconditionsSince = shield.PreconditionsSince
)

// UnknownHolder is how the holder begins where the two locks of a [Twin] have
// different holders. client-go's MultiLock says the same.
const UnknownHolder = twin.UnknownHolder

// The errors that end a term, or refuse one.
var (
	// ErrLegacy says that a [Shield] has lost the legacy lock: a legacy pod has taken
	// it, or it is not what this candidate put there.
	ErrLegacy = shield.ErrLegacy
	// ErrPodGone says that this candidate's pod no longer exists, so that nothing
	// accounts for what this process does.
	ErrPodGone = candidate.ErrPodGone
	// ErrPhase says that the phase on record keeps this kind of candidate out.
	ErrPhase = candidate.ErrPhase
)
