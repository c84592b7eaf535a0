// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/test/events"
	"github.com/zonelect/zonelect/test/register"
)

// term is one time of leading.
type term struct {
	// token is the resourceVersion of the write that won the lock: the programs
	// of the past knew none, but a judge of the register wants one.
	token    uint64
	cause    election.Cause
	previous string // the holder before
}

// worker does what the leader does: it writes the register, if there is one.
type worker struct {
	identity  string
	stopDelay time.Duration
	ledger    *register.Register
	print     func(events.Event)
}

// lead works until ctx ends, and stopDelay longer.
func (w *worker) lead(ctx context.Context, t term) {
	w.print(events.Event{Event: "leading", Token: t.token, Cause: string(t.cause), Previous: t.previous})
	w.ledger.Keep(ctx, t.token, w.identity, func(err error) {
		w.print(events.Event{Event: "error", Error: err.Error()})
	})
	w.print(events.Event{Event: "stopping", Cause: context.Cause(ctx).Error()})
	time.Sleep(w.stopDelay)
	w.print(events.Event{Event: "stopped"})
}
