// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package record converts between a coordination.k8s.io/v1 Lease and the
// record that the election reasons about. It is pure: no I/O, no clock.
//
// The spec is written exactly as client-go's LeaseLock writes it, so that client-go
// candidates can share the lock. The rest of a record (its details) is in annotations under
// zonelect.dev/. Everything else on the object is kept as it was.
//
// A Lease can be written by anybody, so reading never fails and never panics: values that
// make no sense read as absent. There are two exceptions, because reading them as absent
// would be dangerous. Times are kept as they are, however absurd, because a candidate tells
// one renewal from the next by them. And a lease duration is kept however long, because
// cutting it short would give two leaders; see [MaxDuration].
//
// Locks on other objects keep the details in the same annotations, by
// [ReadDetails] and [WriteDetails].
package record
