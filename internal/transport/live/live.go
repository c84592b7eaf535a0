// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package live carries what a request wants of its connection from whoever sends it to the
// transport, through client libraries that know of neither. As net/http/httptrace does, it uses
// the context of the request.
package live

import (
	"context"
	"time"
)

type (
	key   struct{}
	aside struct{}
)

// Since asks for a connection on which the server has answered since then, or for a new one.
func Since(ctx context.Context, since time.Time) context.Context {
	return context.WithValue(ctx, key{}, since)
}

// Wanted returns the time that was given to Since, and false if any connection will do.
func Wanted(ctx context.Context) (since time.Time, is bool) {
	since, is = ctx.Value(key{}).(time.Time)
	return since, is
}

// Aside asks for a connection that no renewal uses. Nor does what becomes of the request say anything
// about the connections of renewals.
func Aside(ctx context.Context) context.Context { return context.WithValue(ctx, aside{}, true) }

// IsAside reports whether Aside was asked for.
func IsAside(ctx context.Context) bool { return ctx.Value(aside{}) != nil }
