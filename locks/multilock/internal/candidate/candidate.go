// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package candidate has what every candidate in a migration needs, whichever legacy lock
// it leaves: a Lease that carries the phase, the candidate's presence object, and the
// rules that say which candidate may campaign in which phase.
package candidate

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/patience"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// Mode says how a candidate takes part in a migration.
type Mode string

// The modes of a candidate. See package multilock.
const (
	Auto  Mode = "auto"
	Dual  Mode = "dual"
	Alone Mode = "lease"
)

// CheckMode returns an error unless a candidate in mode m holds a legacy lock too.
func CheckMode(m Mode) error {
	if m != Auto && m != Dual {
		return fmt.Errorf("the mode %q is neither %s nor %s", m, Auto, Dual)
	}
	return nil
}

// ErrPodGone says that this candidate's pod no longer exists, so that others cannot know
// that this process still runs.
var ErrPodGone = presence.ErrPodGone

// ErrPhase says that the phase on record keeps this kind of candidate out.
var ErrPhase = errors.New("not in this phase")

// Config is the part of the configuration that every lock of a migration has.
type Config struct {
	// Lease is the Lease that decides among candidates. Client and
	// CloseConnections serve this lock alone.
	Lease lease.Config
	// Core talks to the core group, v1. Required.
	Core rest.Interface
	// Candidate and Pod identify this candidate. A shield requires the name and the UID
	// of a pod in the Lease's namespace. Without them other locks have no presence
	// object, so that neither tools nor other candidates know of this one.
	Candidate locks.Candidate
	Pod       ownerref.Owner
	// Version of the program, for people.
	Version string
	// HeadStart says how the program finds its head start, for people: package operator writes
	// it. Empty means unknown.
	HeadStart string
	// Timing is the election's. Its AttemptTimeout bounds each request of a shield, and up to its
	// RenewDeadline where the server turns out to be slow.
	Timing timing.Timing
}

// PermissionIn says whether a candidate that takes part in the migration may campaign. In
// mode Dual it may not campaign in the phases beyond.
func PermissionIn(stage record.Stage, mode Mode, beyond ...record.Phase) locks.Permission {
	switch {
	case stage.Phase == record.PhaseLegacy:
		return locks.Permission{Why: "the phase on record is legacy: this program's legacy versions lead, until the phase is dual"}
	case mode == Dual && slices.Contains(beyond, stage.Phase):
		return locks.Permission{Why: fmt.Sprintf("the phase on record is %s, and this candidate's mode is dual: run it in mode auto", stage.Phase)}
	}
	return locks.Permission{Granted: true}
}

// CheckHolder returns an error if r names a holder other than the one at that
// version of the Lease and p is not granted. The answer to the first read may
// arrive before a guardian can withdraw its permission.
func CheckHolder(p locks.Permission, lease locks.Version, r locks.Record) error {
	if p.Granted || r.Holder == "" || r.Holder == record.HolderOf(lease) {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrPhase, p.Why)
}

// Delays returns delays that grow from first to most, without end.
func Delays(first, most time.Duration) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(first), backoff.WithMaxInterval(most), backoff.WithMaxElapsedTime(0))
}

// NewLimit returns the limit of requests that nothing overtakes, in an election of that timing.
func NewLimit(t timing.Timing) *patience.Limit {
	return patience.NewLimit(t.AttemptTimeout, t.RenewDeadline)
}

// Signal wakes the goroutine that receives from a channel of capacity one.
func Signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
