// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package migrate moves a lock from a leader-for-life ConfigMap, or from
// client-go's old election record on an annotation, to a Lease, and back, while
// the programs that hold it run.
//
// An annotation of the Lease holds the phase of a migration, and running candidates
// of package multilock follow it. This package changes that annotation and nothing
// else: each step is one compare-and-swap, and the candidates do the work.
//
//	legacy --advance--> dual --advance--> sealed --clean--> clean
//	       <-rollback--      <-rollback--
//	                    <------------------rollback-------
//
// An election record expires and cannot be sealed: clean follows dual, and rolls back to it.
// The Lease notes which kind of lock moves.
//
// [Migration.Plan] says where a migration stands, what the next step does and what is in its way.
// [Migration.Advance], [Migration.Rollback] and [Migration.Clean] take a step, and
// [Migration.Await] waits until the candidates have followed.
//
// A step is refused with a [RefusedError], which lists the failed checks, unless all checks
// pass or the caller has acknowledged those that fail and may be acknowledged. A caller may
// stop at any time: this package holds nothing.
//
// # Permissions
//
// In the lock's namespace: get, list and update on leases, get on configmaps, get and list on
// pods; get on replicasets and deployments if Config has no Selector. Optional: get on leases in
// kube-node-lease, without which a failed pod counts as one that may lead; get on endpoints, which
// is required if they hold the election record.
// The ClusterRole in config/people/migrate has all of them.
package migrate
