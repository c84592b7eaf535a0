// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package zone makes an election aware of failure domains. [Lookup] asks Kubernetes for the zone
// of a node, so that a candidate can say where it runs. [Order] says which candidate goes first
// when a lock is free: one in a preferred zone, and not in the zone whose leader fell silent or in
// an evacuated one.
//
// A zone is only a name: two candidates are in the same zone if and only if their zone names are
// equal. The empty name stands for an unknown zone, which equals no other, not even another empty
// one. An unknown zone may be an evacuated one, so it does not count as outside.
//
// Knowing the zone makes an election faster or better placed, never correct: any user of the zone
// must work without it.
package zone
