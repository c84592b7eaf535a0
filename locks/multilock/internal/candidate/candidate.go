// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package candidate has what every candidate in a migration needs, whichever legacy lock
// it leaves: its Lease and its presence, and the rules that say which candidate may campaign in which
// phase.
package candidate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/zonelect/zonelect/internal/phase"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// takesPart reports whether a candidate in mode m holds a legacy lock too.
func takesPart(m multilock.Mode) bool { return m == multilock.Auto || m == multilock.Dual }

// PermissionIn says whether a candidate that takes part in the migration may campaign. In
// mode Dual it may not campaign in the phases beyond.
func PermissionIn(stage record.Stage, mode multilock.Mode, beyond ...record.Phase) locks.Permission {
	switch {
	case stage.Phase == record.PhaseLegacy:
		return locks.Permission{Why: "the phase on record is legacy: this program's legacy versions lead, until the phase is dual"}
	case mode == multilock.Dual && slices.Contains(beyond, stage.Phase):
		const late = "the phase on record is %s, and this candidate's mode is dual: run it in mode auto"
		return locks.Permission{Why: fmt.Sprintf(late, stage.Phase)}
	}
	return locks.Permission{Granted: true}
}

// NewLease returns the Lease of c, whose phase a Tracker follows, or an error that lists what is
// wrong with c and the mode. Every Lease that it writes names the legacy lock.
func NewLease(c multilock.Config, mode multilock.Mode, legacy record.Legacy) (*lease.Lock, *phase.Tracker, error) {
	tracker := phase.NewTracker(legacy)
	c.Lease.Annotate, c.Lease.Observe = tracker.Annotate, tracker.Observe
	lock, err := lease.New(c.Lease)
	err = errors.Join(err, c.Timing.Validate())
	if !takesPart(mode) {
		err = errors.Join(err, fmt.Errorf("the mode %q is neither %s nor %s", mode, multilock.Auto, multilock.Dual))
	}
	return lock, tracker, err
}

// NewKeeper returns the keeper of the presence of c. If shielded, the shield of a leader-for-life
// lock depends on it. The keeper signals on failed when it cannot keep the presence.
func NewKeeper(c multilock.Config, mode multilock.Mode, shielded bool, failed chan struct{}) *presence.Keeper {
	return presence.NewKeeper(presence.KeeperConfig{
		Client: c.Lease.Client, Core: c.Core, Namespace: c.Lease.Namespace, Labels: c.Lease.Labels,
		Says: presence.Object{
			Lock: c.Lease.Name, Pod: presence.Pod{Name: c.Pod.Name, UID: c.Pod.UID},
			Identity: c.Candidate.Identity, Zone: c.Candidate.Zone, Node: c.Candidate.Node, Mode: string(mode),
		},
		Shielded: shielded, Failed: failed, Timing: c.Timing, Logger: c.Lease.Logger,
	})
}

// ShieldKeepers returns the presences, among all, of the candidates that keep a shield. A
// candidate in mode lease does not keep one (M10), nor one whose presence does not end with its pod.
func ShieldKeepers(all []presence.Object) []ownerref.Owner {
	var owners []ownerref.Owner
	for _, o := range all {
		if o.Pod.UID != "" && takesPart(multilock.Mode(o.Mode)) {
			owners = append(owners, OwnerOf(o))
		}
	}
	return owners
}

// OwnerOf returns a presence as the owner of a shield.
func OwnerOf(o presence.Object) ownerref.Owner {
	return ownerref.Owner{Name: o.Name, UID: o.UID}
}
