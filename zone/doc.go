// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package zone holds what an election knows of failure domains. [Lookup] tells
// in which zone a node is. It is the only part that talks to Kubernetes. [Order]
// says which candidate goes first when a lock is free, and [Wish.Plan] finds the
// timing for what people know about their work.
//
// A zone is a name and nothing more: two candidates are in the same zone if
// and only if their names of it are equal. The empty name stands for a zone
// that is not known, which equals no other, not even another empty one.
// Knowing the zone makes an election faster or better placed, never correct:
// whatever uses it must work without.
package zone
