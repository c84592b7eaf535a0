// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lease is an locks.Lock on a coordination.k8s.io/v1 Lease, in the
// form in which client-go's LeaseLock writes it: candidates of both can share
// one. What zonelect adds stands in annotations under zonelect.dev/; labels,
// owner references and annotations of others are kept.
//
// Each operation is one request, without retries and without a rate limit, and
// is bounded by its context alone. How long an answer may be is the client's to
// bound, as operator.LeaseLock does; an event of a watch has 4 MiB at most. It needs
// a Role with these rules, in the Lease's namespace:
//
//	apiGroups: [coordination.k8s.io]
//	resources: [leases]
//	verbs: [get, create, update, patch, watch]
//
// Without patch, leadership is lost while the API server takes longer for each answer
// than half a RenewDeadline. Nothing else is.
// create cannot be limited to the Lease's name by resourceNames; the others can.
//
// # Errors
//
// Every error names the Lease and what was tried, says what to do where that
// is known, and wraps the sentinel of package election that fits and the error
// of client-go. Where the server answered, it has the method StatusCode() int
// with the HTTP status. Timeout() bool says whether time ran out, here or at
// the server.
package lease
