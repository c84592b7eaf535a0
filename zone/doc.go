// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package zone holds an election's knowledge of failure domains. [Lookup] finds the zone of a
// node. It is the only part that talks to Kubernetes. [Order] says which candidate goes first
// when a lock is free, and [Wish.Plan] finds a timing from what people know about their work.
//
// A zone is only a name: two candidates are in the same zone if and only if their zone names
// are equal. The empty name stands for an unknown zone, which equals no other, not even
// another empty one. It may be any zone, so it is not outside evacuated ones. Knowing the zone makes an election faster or better placed, never
// correct: any user of the zone must work without it.
package zone
