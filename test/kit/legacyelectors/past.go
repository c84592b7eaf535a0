// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package legacyelectors has the electors of the past, which campaign as they did then:
// leader-for-life in its variants, and client-go's on an annotation.
package legacyelectors

import "context"

// Kind is a kind of lock.
type Kind string

// The kinds of locks.
const (
	OwnerRef       Kind = "ownerref" // for life, see ForLife
	ConfigMap      Kind = "configmap"
	Endpoints      Kind = "endpoints"
	MultiConfigMap Kind = "multilock-configmap"
	MultiEndpoints Kind = "multilock-endpoints"
)

// Work is what a leader does. token is the resourceVersion of the write that won the lock: the
// programs of the past had no token, but a judge of the register needs one.
type Work func(ctx context.Context, token uint64)
