// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package locks

import "context"

type dispatchKey struct{}

// Dispatch hears from a Lock when a call really leaves the process. A Lock that holds a
// write back, to send it with others or when it is its turn, reports that, so that the
// elector neither counts the time before as time that a server took, nor as time for which
// the write has given it trust. The methods are safe for concurrent use and return at once.
type Dispatch interface {
	// Held is called when the call is held back. It has not left yet.
	Held()
	// Sent is called just before the call leaves, and never later than that: trust counts
	// from it.
	Sent()
	// Now returns a reading of the caller's clock. SentAt is Sent at a moment that Now
	// returned, to the same call or an earlier one of the same caller: something that left
	// then does what the call asks.
	Now() any
	SentAt(now any)
}

// WithDispatch asks a Lock to report to d when the call with this context is held back and
// when it is sent. A Lock that holds nothing back ignores it.
func WithDispatch(ctx context.Context, d Dispatch) context.Context {
	return context.WithValue(ctx, dispatchKey{}, d)
}

// DispatchOf returns the Dispatch that the caller of a Lock gave with ctx, or one that drops
// what it hears. A Lock that holds calls back uses it.
func DispatchOf(ctx context.Context) Dispatch {
	if d, ok := ctx.Value(dispatchKey{}).(Dispatch); ok {
		return d
	}
	return deaf{}
}

type deaf struct{}

func (deaf) Held()      {}
func (deaf) Sent()      {}
func (deaf) Now() any   { return nil }
func (deaf) SentAt(any) {}
