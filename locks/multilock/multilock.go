// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package multilock

import (
	"github.com/zonelect/zonelect/locks/multilock/internal/candidate"
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
)

// Config is the part of the configuration that every lock of this package has. [ShieldConfig] and
// [TwinConfig] embed it.
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

// The errors that end a term.
var (
	// ErrLegacy says that a [Shield] has lost the legacy lock: a legacy pod has taken it,
	// or the ConfigMap is not the one that this candidate put there.
	ErrLegacy = shield.ErrLegacy
	// ErrPodGone says that this candidate's pod no longer exists, so that others cannot
	// know that this process still runs.
	ErrPodGone = candidate.ErrPodGone
)
