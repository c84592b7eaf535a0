// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/legacyelectors"
	"github.com/zonelect/zonelect/test/kit/register"
)

// worker does what the leader does: it writes the register, if there is one.
type worker struct {
	identity  string
	stopDelay time.Duration
	ledger    *register.Register
	print     func(events.Event)
}

// lead works until ctx ends, and for stopDelay after that.
func (w *worker) lead(ctx context.Context, t legacyelectors.Term) {
	w.print(events.Event{Event: "leading", Token: t.Token, Cause: string(t.Cause), Previous: t.Previous})
	w.ledger.Keep(ctx, t.Token, w.identity, func(x register.Write) {
		if x.Err != nil && !x.Over {
			w.print(events.Event{Event: "error", Error: x.Err.Error()})
		}
	})
	w.print(events.Event{Event: "stopping", Cause: context.Cause(ctx).Error()})
	time.Sleep(w.stopDelay)
	w.print(events.Event{Event: "stopped"})
}
