// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package phase follows the phase of a migration that a Lease carries, and keeps candidates out
// that may not campaign in it.
//
// A [Guard] reads the ConfigMap of the lock's name, which may be a legacy lock. Without this
// permission it goes on without looking:
//
//	apiGroups: [""]
//	resources: [configmaps]
//	verbs: [get]
package phase
