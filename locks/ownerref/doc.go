// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ownerref knows the lock of leader-for-life (operator-sdk and
// operator-lib): a ConfigMap whose only ownerReference names the leader's pod.
// It tells such a lock from everything else, judges whether its owner may still
// lead, counts the pods that may, and keeps the shield: the same ConfigMap,
// owned by the presence objects of candidates instead, at which every version
// of leader-for-life only waits.
package ownerref
