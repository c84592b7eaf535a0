// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package heartbeat is a locks.Lock on one of many Leases that a process may hold, and the
// heartbeat that renews all of them with one write.
//
// A [Heart] is the lock of one more election, in which nobody else campaigns: that of the
// process's own Lease. As long as its elector leads there, its renewals are the process's
// heartbeats, and its term is the process's epoch. A [Lock] with a Heart writes the Lease
// only when the leadership changes, and names the epoch on it. Renewals of that Lock send
// nothing: they wait for the next heartbeat. Rules L1 to L8 in docs/design.md say why two
// cannot lead. A Lock without a Heart renews by writes of its own, and follows the heartbeats
// of others.
//
// Only a candidate that follows heartbeats takes over when the holder dies, because the Lease's
// own duration is a year. No client-go elector may share the lock. From client-go 0.27 on it goes
// by that duration, but takes the Lease from a live holder if somebody deletes or empties it. Up
// to 0.26 it goes by its own duration, and takes the Lease from a live holder in any case.
//
// Both need a Role with these rules in the namespace of the Leases, without resourceNames:
//
//	apiGroups: [coordination.k8s.io]
//	resources: [leases]
//	verbs: [get, list, watch, create, update]
//
// With the following, a process that ends in good order deletes the Lease of its heartbeat
// ([Heart.Remove]). Otherwise that stays until its owner is gone, or for good if it has none:
//
//	apiGroups: [coordination.k8s.io]
//	resources: [leases]
//	verbs: [delete]
package heartbeat
