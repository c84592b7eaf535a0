// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package annotation is an locks.Lock on the lock that client-go had before
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
// create cannot be limited to the object's name by resourceNames; the others
// can. Outside of kube-system a FlowSchema of its own keeps these requests
// from being shed with others when the API server is busy.
//
// # Whole seconds
//
// The record's times have whole seconds, and a legacy elector sees a renewal
// only where its bytes changed. So two renewals within one second look like
// none to it; the timing law of package election asks for a second more there.
// For readers of its own this package keeps the microseconds in the
// annotations zonelect.dev/renewed and zonelect.dev/acquired. They are
// believed only while they lie in the record's second, for legacy electors
// leave them standing.
//
// Legacy electors judge an expiry by their own LeaseDuration, not by the
// record's: RenewInterval must fit the shortest one among them.
//
// # What is refused
//
// A leader-for-life lock is a ConfigMap as well, without record: the owner
// reference to one Pod is the lock. A client-go elector would take it at once,
// beside its leader. This package returns [ErrOtherLock] instead, also for the
// ConfigMap that zonelect shields such a lock with. An annotation that is no
// record gives [ErrNoRecord]: nobody, neither legacy nor zonelect, takes the
// lock until that is mended by hand.
//
// # Errors
//
// Every error names the object and what was tried, says what to do where that
// is known, and wraps the sentinel that fits and the error of client-go. Where
// the server answered, it has the method StatusCode() int with the HTTP
// status. Timeout() bool says whether time ran out, here or at the server.
package annotation
