// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rawapi

import (
	"context"
	"time"

	"github.com/zonelect/zonelect/internal/transport/live"
)

// Ask reads something by get, for most at the longest, on a connection that is known to be alive. A slow server is
// not a dead one, so its answer is waited for.
func Ask[T any](ctx context.Context, most time.Duration, get func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(live.Since(ctx, time.Now()), most)
	defer cancel()
	return get(ctx)
}

// Limit is how long a request may take that nothing overtakes. Who waits for an answer on a
// connection that died waits in vain, and the next try has a connection of its own. So it is
// short at first. It doubles whenever a request runs out of it, for a server that is slow, and
// shrinks again when requests take little of it. Its methods are for one goroutine at a time.
type Limit struct{ least, most, now time.Duration }

// NewLimit returns a limit between the two.
func NewLimit(least, most time.Duration) *Limit { return &Limit{least, most, least} }

// Of returns a context for so many requests. The caller calls done when they have ended.
func (l *Limit) Of(ctx context.Context, requests int) (limited context.Context, done func()) {
	began, limit := time.Now(), time.Duration(requests)*l.now
	limited, cancel := context.WithTimeout(ctx, limit)
	return limited, func() {
		switch took := time.Since(began); {
		case ctx.Err() != nil:
		case limited.Err() != nil:
			l.now = min(2*l.now, l.most)
		case took < limit/4:
			l.now = max(l.now/2, l.least)
		}
		cancel()
	}
}
