// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package election elects one leader among candidates that share a record.
//
// An [Elector] campaigns for a [locks.Lock], and calls the work for each [Term] that
// it wins. The work gets a context that ends with the term, and the lock is
// released when the work has returned, not before. This package knows nothing
// of Kubernetes: package operator makes an elector for an operator in one call,
// package lease has the lock on a Lease, and a lock of your own needs four
// methods and passes the suite in package electiontest.
//
// # What keeps two from leading
//
// A leader trusts its term for RenewDeadline after it sent the last renewal that
// was acknowledged. A timer ends the work's context then, whatever request
// hangs, and the work has StopGrace to return. A candidate leaves the record
// alone for LeaseDuration after it first saw the last renewal. So nobody takes
// over before the work has stopped, as long as
//
//	RenewDeadline + StopGrace + LeaseDuration x MaxClockDrift <= LeaseDuration
//
// which [New] checks: see [Timing]. Only elapsed time counts, no wall clock.
//
// # What does not
//
// Work that overstays its time, or a process that was paused in the middle of a
// write, may write when another leads. [Term.Guard] refuses such writes, and
// cuts off those that are on their way. What has left the process only the
// receiver can refuse: each term has a Token larger than all before it, for the
// receiver to compare.
//
// # How a term ends
//
// [context.Cause] of the work's context tells: [ErrLost], if trust ran out or
// another has the lock; [ErrResigned], [ErrStopped] or [ErrWithdrawn], if the
// stop was wanted. If it was, the lock is kept while the work stops, for up to
// StopTimeout, and the next candidate leads a moment after the release.
package election
