// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package multilock

import (
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// Mode says how a candidate takes part in a migration.
type Mode string

// The modes of a candidate.
const (
	// Auto follows the phase on record: the candidate holds both locks until the
	// phase says that the Lease alone counts.
	Auto Mode = "auto"
	// Dual always holds both, and does not campaign in later phases.
	Dual Mode = "dual"
)

// Config is the part of the configuration that every lock of a migration has. Those of packages
// shield and twin embed it.
type Config struct {
	// Lease is the Lease that decides among candidates. Its Client serves this lock alone.
	// The lock itself sets Annotate, Observe and the Guardian and Phases of its Capabilities.
	Lease lease.Config
	// Core talks to the core group, v1. Required.
	Core rest.Interface
	// Candidate and Pod identify this candidate. A shield requires the name and the UID
	// of a pod in the Lease's namespace. For other locks, a candidate without them has a presence
	// object that no pod owns and that is renewed.
	Candidate locks.Candidate
	Pod       ownerref.Owner
	// Timing is the election's. Its AttemptTimeout bounds each request of a shield, and up to its
	// RenewDeadline where the server turns out to be slow.
	Timing timing.Timing
}

// ErrPodGone ends a term: this candidate's pod no longer exists, so that others cannot know that this
// process still runs.
var ErrPodGone = presence.ErrPodGone
