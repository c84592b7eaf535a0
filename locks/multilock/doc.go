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
