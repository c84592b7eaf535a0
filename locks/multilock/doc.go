// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package multilock makes one lock out of a Lease, which alone decides among
// candidates, and the lock of the programs that are being replaced, so that
// both kinds can run side by side and never lead together.
//
// [Shield] is for leader-for-life ConfigMaps. Its rules, M1 to M12, are in
// docs/design.md; rules.go holds them as code, apart from all I/O.
//
// [Twin] is for client-go's records on annotations, which end by time: a
// candidate holds both locks, until the phase is clean.
//
// [LeaseOnly] is for programs that take no part, and must not lead beside those
// that do.
//
// All keep a presence object, by which people and the other candidates know who
// is there. It is one more Lease, owned by the candidate's pod, so that it goes
// with it; it is written at the start and on change.
//
// They need what package lease needs, to list the presences:
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
