// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sleep waits for a time that a context may cut short.
package sleep

import (
	"context"
	"time"
)

// For waits for d and returns nil, or returns the cause of ctx's end if that
// comes first.
func For(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
