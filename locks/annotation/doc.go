// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package annotation is a locks.Lock on the lock that client-go had before
// Leases: a record in JSON in the annotation
// control-plane.alpha.kubernetes.io/leader of a ConfigMap or an Endpoints
// object. Legacy electors (client-go's ConfigMapLock and EndpointsLock up to
// 0.23, and as the first half of its MultiLock up to 0.26) can share it. It is
// there to move off such a lock; a new operator uses a Lease.
//
// The record is byte for byte what client-go wrote. What else zonelect knows
// stands in annotations under zonelect.dev/, as on a Lease. Everything else on
// the object (data, subsets, labels, other annotations, owner references) is
// kept. An object without the annotation is a lock that is free.
//
// Each operation is one request, without retries and without a rate limit, and
// is bounded by its context alone. It needs a Role with these rules, in the
// object's namespace:
//
//	apiGroups: [""]
//	resources: [configmaps] # or endpoints
//	verbs: [get, create, update, watch]
//
// resourceNames can limit all verbs except create to the object's name. Outside of
// kube-system a FlowSchema of its own keeps a busy API server from rejecting these
// requests together with others.
//
// # Whole seconds
//
// The record's times are in whole seconds, and a legacy elector sees a renewal only if
// the bytes of the record changed. So the second of two renewals within one second is
// invisible to it, and the timing law of package election needs one more second. For
// zonelect's own candidates this package keeps the microseconds in the annotations
// zonelect.dev/renewed and zonelect.dev/acquired. A candidate believes them only if they
// lie in the record's second, because legacy electors leave them in place.
//
// Legacy electors decide about an expiry by their own LeaseDuration and not by that of
// the record, so RenewInterval must fit the shortest one among them.
//
// # What is refused
//
// A leader-for-life lock is also a ConfigMap, but without a record: its owner reference
// to one Pod is the lock. A client-go elector would take it at once, beside its leader.
// This package returns [ErrOtherLock] instead, also for the ConfigMap by which zonelect
// shields such a lock. If the annotation is not a valid record, this package returns
// [ErrNoRecord], and no candidate, legacy or zonelect, takes the lock until somebody
// repairs it by hand.
//
// # Errors
//
// Every error names the object and what was tried, says what to do if that is known, and
// wraps the matching sentinel and the error of client-go. If the server answered, the
// error has a method StatusCode() int with the HTTP status. Its method Timeout() bool
// reports whether time ran out, here or at the server.
package annotation
