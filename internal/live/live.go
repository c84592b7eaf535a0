// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package live carries the demand for a live connection from whoever doubts the old ones to the
// transport, through client libraries that know of neither. As net/http/httptrace does, it uses
// the context of the request.
package live

import (
	"context"
	"time"
)

type key struct{}

// Since asks for a connection on which the server has answered since then, or for a new one.
func Since(ctx context.Context, since time.Time) context.Context {
	return context.WithValue(ctx, key{}, since)
}

// Wanted returns the time that was given to Since, and false if any connection will do.
func Wanted(ctx context.Context) (since time.Time, is bool) {
	since, is = ctx.Value(key{}).(time.Time)
	return since, is
}
