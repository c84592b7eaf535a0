// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package presence keeps the presence objects of candidates: one small Lease for each
// candidate. The candidate's pod owns it, so that it is deleted with the pod. It is written
// at the start and on change, and not renewed. A change of health that soon follows another one is
// written within 15 s.
//
// A candidate in a pod that the API server does not know, in another namespace or in no pod has a
// presence that no pod owns. It renews this presence at most once a minute, and removes it when it
// ends in good order. If it does not, the other candidates ignore the presence, and remove it, once it
// has missed five renewals. They measure that with their own clocks, from the last change that they
// saw. The first candidate to notice removes a presence that no longer counts, unless it cannot write its own.
// The deletion names the version, so that it fails if the presence was renewed meanwhile. Tools see a
// presence only once, so they compare its renewTime with their own clock.
//
// A candidate that is about to end says that it is unhealthy, so that it comes last: one whose pod is
// being deleted, if it may watch its pod, and one in a pod whose candidacy has ended.
//
// A candidate follows all presences of a lock by one list and one watch by label, which resumes where
// it ended. If somebody deletes its own presence, it recreates it, at most once a minute, or once a
// RenewInterval if a shield depends on it.
//
// Anybody who may create Leases can make up candidates. That costs at most one LeaseDuration at a takeover.
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
