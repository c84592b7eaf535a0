// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package presence keeps the presence objects of candidates: one small Lease for each
// candidate. The candidate's pod owns it, so that it is deleted with the pod. It is written
// at the start and on change, and never renewed. A change of health is written once a LeaseDuration
// at most.
//
// A candidate that is in no pod which the API server knows, or in another namespace, has a presence
// that no pod owns. That is renewed once a minute at most, and removed in good order.
// Otherwise the other candidates ignore it, and remove it, when it has missed five renewals. They
// measure that with their own clocks, from the last change that they saw. After a gap in their watch,
// each presence that counted counts for a minute at least. Whoever comes first removes one that no
// longer counts, unless it cannot write its own. The deletion names the version, so that it fails if the
// presence was renewed meanwhile. If more than 20 are without a pod, all together renew no oftener
// than 20 would. Tools, which see a presence once, compare its renewTime with their own clock.
//
// A candidate that is to end says that it is unhealthy, so that it comes last: one whose pod is being
// deleted, where it may watch that, and one in a pod whose candidacy has ended.
//
// A candidate follows all presences of a lock by one list and one watch by label, which resumes where
// it ended. It recreates its own presence if somebody deletes that, less and less often if it is deleted
// again and again.
//
// Whoever may create Leases can make up candidates. That costs at most one LeaseDuration at a takeover.
//
// # Permissions
//
// It needs the verbs get, create and update on leases, and list and watch to know the others; delete
// only to remove presences without a pod. In a Role of the pods' namespace, unless the server tells by
// the token which pod this is:
//
//	apiGroups: [""]
//	resources: [pods]
//	verbs: [get, watch]
package presence
