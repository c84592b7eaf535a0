// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ownerref knows the lock of leader-for-life (operator-sdk and
// operator-lib): a ConfigMap whose only ownerReference names the leader's pod.
// It tells such a lock from everything else, judges whether its owner may still
// lead, counts the pods that may, and keeps the shield: the same ConfigMap,
// owned by the presence objects of candidates instead, at which every version
// of leader-for-life only waits.
//
// It decides nothing about leadership: that is for a lock that is made of this
// and a Lease. M1 to M12 are the rules of the shield, see docs/design.md.
//
// # Permissions
//
// [ConfigMap] and [LegacyPods] need these rules in a Role of the lock's namespace:
//
//	apiGroups: [""]
//	resources: [configmaps]
//	verbs: [get, create, update, delete, watch]
//
//	apiGroups: [coordination.k8s.io]
//	resources: [leases]   # the presences, besides what the lock itself needs
//	verbs: [list]
//
//	apiGroups: [""]
//	resources: [pods]
//	verbs: [get, list]
//
//	apiGroups: [apps]   # one of the last three; none if a selector is given
//	resources: [replicasets, deployments, statefulsets, daemonsets]
//	verbs: [get]
//
// M11 needs, in a Role of the namespace kube-node-lease:
//
//	apiGroups: [coordination.k8s.io]
//	resources: [leases]
//	verbs: [get, list]
//
// and for the out-of-service taint, in a ClusterRole:
//
//	apiGroups: [""]
//	resources: [nodes]
//	verbs: [get]
//
// Without these two, M11 does not apply, and a legacy pod that is Succeeded or
// Failed is waited for until it is removed: get on either is enough for that.
// A permission that is missing elsewhere is an error, which names it; without
// watch on the ConfigMap nobody begins to lead.
//
// # Errors
//
// Errors are those of package lease: each says what was tried and what to do,
// and wraps the sentinel of package election that fits.
package ownerref
