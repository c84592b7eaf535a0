// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lease is a locks.Lock on a coordination.k8s.io/v1 Lease, in the form in which
// client-go's LeaseLock writes it: candidates of both can share one. zonelect stores its
// additions in annotations under zonelect.dev/, and keeps the labels, owner references
// and annotations of others.
//
// Each operation is one request, without retries and without a rate limit, and is bounded
// by its context alone. The lock needs a Role with these rules in the Lease's namespace:
//
//	apiGroups: [coordination.k8s.io]
//	resources: [leases]
//	verbs: [get, create, update, watch]
//
// resourceNames can limit all verbs except create to the Lease's name.
//
// # Errors
//
// Every error names the Lease and what was tried, says what to do if that is known, and
// wraps the matching sentinel of package locks and the error of client-go. Its method
// Timeout() bool reports whether time ran out, here or at the server.
package lease
