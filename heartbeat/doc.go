// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package heartbeat keeps all locks that a process holds by one write. It is experimental.
//
// [NewGroup] makes the elections, as operator.NewGroup does. The process has one election more, in
// which nobody else campaigns: that of a Lease of its own, the heartbeat's. Each renewal there is a
// heartbeat, and each term an epoch. The Lease of a lock is written when the leadership changes, and
// names the epoch. Its renewals send nothing: they wait for the next heartbeat. README.md has the rules
// L1 to L8, which say why two cannot lead, and who must not share a lock.
//
// It needs a Role with these rules in the namespace of the Leases, without resourceNames:
//
//	apiGroups: [coordination.k8s.io]
//	resources: [leases]
//	verbs: [get, list, watch, create, update]
//
// With the following, a process that ends in good order deletes the Lease of its heartbeat.
// Otherwise that stays until its owner is gone, or for good if it has none:
//
//	apiGroups: [coordination.k8s.io]
//	resources: [leases]
//	verbs: [delete]
package heartbeat

// The goroutines
//
// These functions start goroutines, beside those of package operator; a test checks the list against
// the code.
//
//	group.go   beating.Start     the elector of the heartbeat; until the last election ends
//	heart.go   heart.task        waits until the watch has shown a heartbeat, or detaches a lock; until then, or a RenewDeadline, or the end of the heartbeat
//	notes.go   heart.beginNotes  notes the locks that the process releases; until none is left, or an AttemptTimeout
//	settle.go  heart.tidy        writes releases that were noted into the locks' own Leases; until the answers, or a RenewInterval
//	settle.go  heart.settle      writes one of them; until the answer, or a RenewDeadline
//	writes.go  writes.enter      gives a place back; a timer of AttemptTimeout, which the answer stops
