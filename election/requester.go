// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/zonelect/zonelect/internal/live"
	"github.com/zonelect/zonelect/locks"
)

// requester makes the requests, each in its own goroutine, so that the loop never waits for
// the network. A slow request goes on while another one overtakes it on another connection.
// The loop owns all fields.
type requester struct {
	lock     locks.Lock
	clock    clock
	watchdog *loopWatchdog
	answers  chan *answer
	exchange *exchange
	wait     sync.WaitGroup
}

// room reports whether another request may be sent. If not, it cancels one to make room.
func (c *requester) room() bool {
	worst := c.exchange.crowded()
	if worst == nil {
		return true
	}
	worst.gaveUp = true
	worst.cancel()
	return false
}

// send starts the request. Requests that are under way go on. There must be room.
func (c *requester) send(ctx context.Context, r request) {
	if r.sent.awake.IsZero() { // else trust counts from no later than the time in the record
		r.sent = c.clock.now()
	}
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	if r.fresh() {
		ctx = live.Since(ctx, r.since)
	}
	f := &flight{request: r, cancel: cancel}
	c.exchange.send(f)
	c.expectNext()
	a := &answer{request: r, flight: f}
	c.wait.Go(func() {
		defer cancel()
		if r.op == opRead {
			a.snapshot, a.err = c.lock.Read(ctx)
		} else {
			a.snapshot, a.err = c.lock.Write(ctx, r.base, r.record)
		}
		a.end = time.Now()
		c.answers <- a
	})
}

// received notes that the answer has been taken from the channel, and completes it.
func (c *requester) received(a *answer) answer {
	if a.flight.gaveUp && errors.Is(a.err, context.Canceled) {
		a.err = fmt.Errorf("no answer within %v: %w", a.end.Sub(a.sent.awake).Round(time.Millisecond), context.DeadlineExceeded)
	}
	c.exchange.came(a)
	c.watchdog.expectLoop(time.Now())
	c.expectNext()
	return *a
}

// expectNext tells the loopWatchdog by when the next request must be over.
func (c *requester) expectNext() {
	all := c.exchange.flights
	if len(all) == 0 {
		c.watchdog.expectAnswer("", time.Time{})
		return
	}
	first := slices.MinFunc(all, func(a, b *flight) int { return a.end().Compare(b.end()) })
	c.watchdog.expectAnswer(first.op, first.end())
}

// dialAndAnswer limits a request that may have to wait for a dial: the dial and the answer
// get a RenewDeadline each. Ending the request sooner would cost the connection, which is
// all that the next request could use.
func dialAndAnswer(t Timing) time.Duration { return 2 * t.RenewDeadline }

// cancel ends all requests that are under way. A write may have landed.
func (c *requester) cancel() {
	for _, f := range c.exchange.flights {
		f.cancel()
	}
}

// drain waits until no write is under way that may land, and returns the answers to the
// writes. It does not wait for reads, nor for writes that are lost.
// It cancels writes that take longer than patience: whether they landed is then unknown. It gives
// up on a lock that does not obey its context, and reports whether all is settled.
func (c *requester) drain(patience time.Duration) (writes []answer, settled bool) {
	for _, f := range c.exchange.flights {
		if !f.writes() || f.lost {
			f.cancel()
		}
	}
	c.watchdog.expectLoop(time.Now().Add(2 * patience))
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for late := false; len(c.exchange.flights) > 0; {
		select {
		case a := <-c.answers:
			if a := c.received(a); a.writes() {
				writes = append(writes, a)
			}
		case <-timer.C:
			if late {
				return writes, false
			}
			late = true
			c.cancel()
			timer.Reset(patience)
		}
	}
	return writes, true
}

// call makes the request and waits for its answer. Other answers that come before go to other.
func (c *requester) call(ctx context.Context, r request, other func(answer)) (answer, bool) {
	c.send(ctx, r)
	own := c.exchange.newest
	c.watchdog.expectLoop(time.Now().Add(2 * r.limit))
	timer := time.NewTimer(2 * r.limit)
	defer timer.Stop()
	for {
		select {
		case came := <-c.answers:
			a := c.received(came)
			if a.flight == own {
				return a, true
			}
			other(a)
		case <-timer.C:
			return answer{}, false
		}
	}
}
