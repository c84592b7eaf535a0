// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// race is how dials compete.
type race struct {
	interval time.Duration // between the starts of two dials
	each     time.Duration // for one dial
	total    time.Duration // for all of them
}

// dialFunc makes the k-th dial, counted from zero, with all that a usable
// connection needs.
type dialFunc func(ctx context.Context, k int) (net.Conn, error)

type outcome struct {
	k    int
	conn net.Conn
	err  error
}

// run returns the first connection that any dial gives. It starts a dial at
// once, another after each interval, and another when one fails while any of
// the n ways is untried. It gives up when every way was refused and no dial is
// under way, or when total has passed; silence is no refusal. Losers end with
// their context, at the latest after r.each, and close their connections.
func (r race) run(ctx context.Context, n int, dial dialFunc) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.total, errRaceOver)
	defer cancel()
	ticker := time.NewTicker(r.interval)
	defer ticker.Stop()

	outcomes := make(chan outcome)
	errs := make([]error, n) // the latest of each way
	started, flying := 0, 0
	start := func() {
		go r.one(ctx, started, dial, outcomes)
		started, flying = started+1, flying+1
	}
	for start(); ; {
		select {
		case <-ticker.C:
			start()
		case o := <-outcomes:
			if o.err == nil {
				return o.conn, nil
			}
			flying--
			errs[o.k%n] = o.err
			if started < n || flying == 0 && errors.Is(o.err, context.DeadlineExceeded) {
				start()
			} else if flying == 0 {
				return nil, errors.Join(errs...)
			}
		case <-ctx.Done():
			return nil, errors.Join(append(errs, fmt.Errorf("no connection after %d dials: %w", started, context.Cause(ctx)))...)
		}
	}
}

// one makes one dial and hands its outcome over, or closes what nobody wants.
func (r race) one(ctx context.Context, k int, dial dialFunc, outcomes chan<- outcome) {
	dialCtx, cancel := context.WithTimeout(ctx, r.each)
	defer cancel()
	conn, err := dial(dialCtx, k)
	select {
	case outcomes <- outcome{k, conn, err}:
	case <-ctx.Done():
		if err == nil {
			_ = conn.Close() // nobody can use the error of a loser
		}
	}
}

// errRaceOver is the cause of a race that found no connection in its time.
var errRaceOver error = timeoutError{}

// timeoutError is told from other errors as a deadline that has passed.
type timeoutError struct{}

func (timeoutError) Error() string        { return "timed out" }
func (timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }
