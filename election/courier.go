// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"sync"
	"time"
)

// operation is what a request asks of the lock.
type operation string

const (
	opRead    operation = "read"
	opAcquire operation = "acquire"
	opRenew   operation = "renew"
	opRelease operation = "release"
	opWatch   operation = "watch"
	opWrite   operation = "write" // any of acquire, renew and release
)

// kind is what can be wrong with an operation: all writes are one, for where
// one of them works the others do.
func (o operation) kind() operation {
	if o == opAcquire || o == opRenew || o == opRelease {
		return opWrite
	}
	return o
}

// request is one call of the lock.
type request struct {
	op     operation
	fresh  bool    // on a fresh connection
	asOf   Version // reads: the newest version when it was sent
	base   Version // writes: what record replaces
	record Record
	made   moment        // writes that extend a term: when record was made
	limit  time.Duration // how long it may take
}

// answer is what came of a request.
type answer struct {
	request
	snapshot Snapshot
	err      error
	sent     moment // read before the call was made
	end      time.Time
}

// conflict reports whether the write did not land because of another one. No
// read does, whatever a server says.
func (a answer) conflict() bool { return a.op != opRead && errors.Is(a.err, ErrConflict) }

// courier makes one request at a time, in a goroutine of its own, so that the
// loop never waits for the network. Renewal and release cannot cross (S6).
type courier struct {
	lock    Lock
	clock   clock
	pulse   *pulse
	answers chan answer
	busy    bool // an answer is still to come; the loop owns this
	flying  request
	cancel  context.CancelFunc
	wait    sync.WaitGroup
}

func newCourier(lock Lock, c clock, p *pulse) *courier {
	return &courier{lock: lock, clock: c, pulse: p, answers: make(chan answer, 1), cancel: func() {}}
}

// send makes the request. It must not be called while busy.
func (c *courier) send(ctx context.Context, r request) {
	sent := r.made // trust counts from no later than the time in the record
	if sent.awake.IsZero() {
		sent = c.clock.now()
	}
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	if r.fresh {
		ctx = WithFreshConnection(ctx)
	}
	c.busy, c.flying, c.cancel = true, r, cancel
	c.pulse.sent(r.op, time.Now().Add(r.limit))
	c.wait.Go(func() {
		defer cancel()
		a := answer{request: r, sent: sent}
		if r.op == opRead {
			a.snapshot, a.err = c.lock.Read(ctx)
		} else {
			a.snapshot, a.err = c.lock.Write(ctx, r.base, r.record)
		}
		a.end = time.Now()
		c.answers <- a
	})
}

// received notes that the answer has been taken from the channel.
func (c *courier) received() {
	c.busy, c.cancel = false, func() {}
	c.pulse.received()
}

// settle waits for the answer to the request on its way, if there is one, for
// as long as the request may take and a little more.
func (c *courier) settle() (answer, bool) {
	if !c.busy {
		return answer{}, false
	}
	c.pulse.until(time.Now().Add(2 * c.flying.limit))
	patience := time.NewTimer(2 * c.flying.limit)
	defer patience.Stop()
	select {
	case a := <-c.answers:
		c.received()
		return a, true
	case <-patience.C:
		return answer{}, false
	}
}

// call makes the request and waits for its answer.
func (c *courier) call(ctx context.Context, r request) answer {
	c.send(ctx, r)
	a, ok := c.settle()
	if !ok {
		return answer{request: r, err: context.DeadlineExceeded}
	}
	return a
}
