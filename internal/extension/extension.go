// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package extension lets package heartbeat give the elections of a process locks of another kind,
// without a place for that in the API of package operator.
package extension

import (
	"context"

	"github.com/zonelect/zonelect/internal/environment"
	"github.com/zonelect/zonelect/internal/leasewatch"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
)

// Locks makes the locks of an operator.Group. Its methods are safe for concurrent use.
type Locks interface {
	// New returns the lock of that name. It does no I/O.
	New(name string) (locks.Lock, error)
	// Enter is election.Config.Queue of all elections.
	Enter(ctx context.Context) (leave func(), err error)
	// Start begins what the locks share, before the first election. What it returns ends that,
	// after the last one. The view of the Leases goes on meanwhile.
	Start(ctx context.Context) (end func())
	// Alive is what a liveness probe is to be told.
	Alive() error
}

// Place is what the locks of a Group have.
type Place struct {
	*environment.Environment
	Name    string               // of the Group
	Clients *environment.Clients // for the locks, closed after their end
	View    *leasewatch.View     // of the Leases of the namespace
	// Allow returns why a lock may not be taken: a legacy lock of that name counts too (M12).
	Allow func(ctx context.Context, lock string) error
}

// NewGroup is operator.NewGroup, with an operator.Options, for the locks that make returns. It
// returns an *operator.Group. Package operator sets it.
var NewGroup func(ctx context.Context, name string, options any, make func(Place) (Locks, error)) (any, error)

// NewBeating makes the locks of a process that a heartbeat keeps on the Lease heart, of which so many
// are written at a time, for simulations and tests. Package heartbeat sets it.
var NewBeating func(p Place, heart lease.Config, writes int) (Locks, error)

// Variables are environment variables with the prefix LEADER_ELECT_ that package operator does not
// read. The package that reads them adds them when it is initialized.
var Variables []string
