// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package multilock makes one lock out of a Lease, which alone decides among
// candidates, and the lock of the programs that are being replaced, so that
// both kinds can run side by side and never lead together.
//
// This package is what a program imports. Each lock has a package of its own:
//
//   - [Shield], in package shield, is for leader-for-life ConfigMaps. Its rules, M1 to
//     M12, are in docs/design.md; shield/rules.go holds them as code, without any I/O.
//   - [Twin], in package twin, is for client-go's records on annotations, which end by
//     time. A candidate holds both locks until the phase is clean.
//   - [LeaseOnly], in package leaseonly, is for programs that take no part in a
//     migration, and must not lead beside those that do.
//
// All of them keep a presence object, which tells people and the other candidates who
// is there. It is one more Lease. The candidate's pod owns it, so that it goes with
// the pod. It is written at the start and on change.
//
// SetUnhealthy of a lock has the presence object say why this candidate should not
// lead; empty means that all is well. The first time, the object says either at once.
// Where that keeps changing, the object says that all is well once that has been so
// for a LeaseDuration, and for twice as long after each relapse within a minute, up to
// five minutes. Other words for the same are written once a minute at most.
// SetUnhealthy does no I/O.
//
// Peers of a lock reports which candidates have a presence object, in the form of
// election.Config. It costs nothing while nothing changes: Attend has one watch for it.
// Peers knows nobody while Attend does not run, or where Leases may not be listed and
// watched.
//
// They need what package lease needs, and to list the presences:
//
//	apiGroups: [coordination.k8s.io]
//	resources: [leases]
//	verbs: [list]
//
// and for a LeaseOnly to look for a leader-for-life lock:
//
//	apiGroups: [""]
//	resources: [configmaps]
//	verbs: [get]
package multilock

// The goroutines
//
// These functions start goroutines; a test holds the list against the code. Attend and
// Watch wait for theirs.
//
//	leaseonly/Lock.Attend                    keeps the presence; until the end of Attend
//	shield/keeper.run                        keeps the presence; until the end of Attend
//	shield/keeper.startWatch                 one watch of the ConfigMap; until it ends, or the end of Attend
//	shield/keeper.act                        the requests of one action; until their answers, or their limit
//	twin/Lock.Attend                         keeps the presence; until the end of Attend
//	twin/twinWatch.run                       the watch of one of both locks; until either ends
//	candidate/PresenceKeeper.Keep          follows the other candidates' presences; until the end of Attend
//	candidate/PresenceKeeper.SetUnhealthy  has the presence say that all is well again; a timer, which the next change stops
//	candidate/PhasedLease.Watch            the Lease's watch; until it ends, or its context
