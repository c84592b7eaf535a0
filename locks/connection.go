// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"time"
)

type liveKey struct{}

// WithLiveConnection asks a Lock to use a connection on which the server has answered
// since then, or a new one, because older connections may be dead. The request travels
// in the context because it has to pass through client libraries that do not know it.
// A Lock without connections ignores it.
func WithLiveConnection(ctx context.Context, since time.Time) context.Context {
	return context.WithValue(ctx, liveKey{}, since)
}

type orderedKey struct{}

// WithOneConnection asks a Lock to use one connection for all calls with such a context,
// in order, however many are under way. An elector does so for amendments only, because
// it takes long to notice that this connection is dead.
func WithOneConnection(ctx context.Context) context.Context {
	return context.WithValue(ctx, orderedKey{}, true)
}

// WantsOneConnection reports whether ctx comes from WithOneConnection.
func WantsOneConnection(ctx context.Context) bool {
	wants, _ := ctx.Value(orderedKey{}).(bool)
	return wants
}

// WantsLiveConnection returns the time given to WithLiveConnection. It returns false if
// any connection will do.
func WantsLiveConnection(ctx context.Context) (since time.Time, wants bool) {
	since, wants = ctx.Value(liveKey{}).(time.Time)
	return since, wants
}
