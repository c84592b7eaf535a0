// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ownerref reads the lock of leader-for-life (operator-sdk and operator-lib): a
// ConfigMap whose only ownerReference names the leader's pod. It tells such a lock from
// everything else, and from the shield. The shield is the same ConfigMap, owned by the presence
// objects of candidates instead. Every version of leader-for-life only waits while it exists.
//
// The package writes nothing and decides nothing about leadership: the lock Shield of package
// multilock does. M1 to M12 are the rules of the shield, see docs/design-migration.md.
//
// # Permissions
//
// A migration off such a lock needs these rules in a Role of the lock's namespace:
//
//	apiGroups: [""]
//	resources: [configmaps]
//	verbs: [get, create, update, delete, watch]
//
// resourceNames can limit all verbs except create to the ConfigMap's name.
//
//	apiGroups: [coordination.k8s.io]
//	resources: [leases]   # the presences, besides what the lock itself needs
//	verbs: [list]
//
//	apiGroups: [""]
//	resources: [pods]
//	verbs: [get, list]
//
//	apiGroups: [apps]   # none if a selector is given
//	resources: [replicasets, deployments]
//	verbs: [get]
//
// M11 needs, in a Role of the namespace kube-node-lease:
//
//	apiGroups: [coordination.k8s.io]
//	resources: [leases]
//	verbs: [get, list]
//
// Without it, M11 does not apply, and a candidate waits until a legacy pod that is Succeeded or
// Failed is removed; get alone is enough to avoid that wait. Any other missing permission is an
// error, which names it. Without watch on the ConfigMap no candidate begins to lead.
//
// # Errors
//
// Errors are like those of package lease: each says what was tried and what to do, and
// wraps the matching sentinel of package locks.
package ownerref
