// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package locks defines what a lock is: the record that candidates share, and the
// operations by which an elector reads, writes and watches it.
//
// The packages below it implement locks: lease on a Lease, annotation on the object of a
// legacy elector, multilock on both at once, and memory for tests. Package ownerref reads
// and writes the leader-for-life ConfigMap, which is not a Lock by itself. Package
// lockstest has the tests that every Lock must pass.
//
// A [Lock] of one's own needs five methods. [Capabilities] has what few locks have, such as a
// [Guardian], without whose permission nobody leads.
package locks
