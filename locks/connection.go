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

// WantsLiveConnection returns the time given to WithLiveConnection. It returns false if
// any connection will do.
func WantsLiveConnection(ctx context.Context) (since time.Time, wants bool) {
	since, wants = ctx.Value(liveKey{}).(time.Time)
	return since, wants
}
