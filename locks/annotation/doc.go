// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package annotation is a locks.Lock on the lock that client-go had before Leases: a
// record in JSON in the annotation control-plane.alpha.kubernetes.io/leader of a
// ConfigMap or an Endpoints object. Legacy electors can share it: client-go's
// ConfigMapLock and EndpointsLock up to 0.23, and its MultiLock up to 0.26, which has
// such a lock as its first half. This package is for moving off such a lock; a new
// operator uses a Lease.
//
// The record has byte for byte the form that client-go wrote. zonelect stores its
// additions in annotations under zonelect.dev/, as on a Lease. Everything else on the
// object (data, subsets, labels, other annotations, owner references) is kept. An object
// without the annotation is a free lock.
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
// kube-system, a dedicated FlowSchema keeps a busy API server from rejecting these
// requests together with others.
//
// # Whole seconds
//
// The record's times are in whole seconds, and a legacy elector sees a renewal only if
// the bytes of the record changed. So it cannot see the second of two renewals within one
// second, and the timing rule of package election needs one more second. For zonelect's
// own candidates this package keeps the microseconds in the annotations
// zonelect.dev/renewed and zonelect.dev/acquired. A candidate trusts them only if they
// are within the record's second, because legacy electors leave them in place.
//
// Legacy electors judge expiry by their own LeaseDuration and not by that of the record,
// so RenewInterval must suit the shortest one among them.
//
// # What is refused
//
// A leader-for-life lock is also a ConfigMap, but without a record: its owner reference
// to one Pod is the lock. A client-go elector would take it at once and lead beside its
// leader. This package returns [ErrOtherLock] instead, as it does for the ConfigMap by
// which zonelect shields such a lock. If the annotation is not a record of client-go, this
// package returns [ErrNoRecord], and no zonelect candidate takes the lock until somebody
// repairs it by hand. That goes for records of other libraries too, such as fabric8's, which
// says the duration in another way: a record with a key that client-go does not write is
// refused, whatever else it says.
//
// # Errors
//
// Every error names the object and what was tried, says what to do if that is known, and
// wraps the matching sentinel and the error of client-go. Its method Timeout() bool
// reports whether time ran out, here or at the server.
package annotation
