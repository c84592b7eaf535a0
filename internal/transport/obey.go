// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// obeying returns when the context of a request has ended, though what is below it does not: a
// credential plugin, a WrapTransport, a Proxy. Such a request is given up and goes on. Safe for
// concurrent use.
type obeying struct {
	next http.RoundTripper
	// grace is for how long a request may go on after the end of its context. Code that obeys its
	// context needs none of it, but a busy machine may.
	grace time.Duration

	mu     sync.Mutex
	strays int           // requests that were given up and go on
	back   chan struct{} // closed when one of them has come back
}

// mostStrays is how many requests may have been given up until the next ones wait for them.
const mostStrays = 16

func obey(next http.RoundTripper, grace time.Duration) *obeying {
	return &obeying{next: next, grace: grace, back: make(chan struct{})}
}

// trip is one request.
type trip struct {
	resp *http.Response
	err  error
	over chan struct{} // closed when both are set
}

// RoundTrip sends one request, as http.RoundTripper says.
func (o *obeying) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, sent := req.Context(), time.Now()
	if err := o.await(ctx); err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // it was not read
		}
		return nil, err
	}
	t := &trip{over: make(chan struct{})}
	go func() {
		defer close(t.over)
		t.resp, t.err = o.next.RoundTrip(req) //nolint:bodyclose // the caller closes it, or giveUp
	}()
	select {
	case <-t.over:
		return t.resp, t.err
	case <-ctx.Done():
	}
	patience := time.NewTimer(o.grace)
	defer patience.Stop()
	select {
	case <-t.over:
		return t.resp, t.err
	case <-patience.C:
		o.giveUp(t)
		return nil, &unsettledError{ctx.Err(), time.Since(sent), t.over}
	}
}

// await waits while too many requests that were given up go on.
func (o *obeying) await(ctx context.Context) error {
	for {
		o.mu.Lock()
		full, back := o.strays >= mostStrays, o.back
		o.mu.Unlock()
		if !full {
			return nil
		}
		select {
		case <-back:
		case <-ctx.Done():
			return fmt.Errorf("%w: this request was not sent, because %d others have not come back: %s", ctx.Err(), mostStrays, foreign)
		}
	}
}

// giveUp counts a request that goes on, until it has come back. Nobody takes its answer.
func (o *obeying) giveUp(t *trip) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.strays++
	go func() {
		<-t.over
		if t.err == nil {
			_ = t.resp.Body.Close() // nobody reads it
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.strays--
		close(o.back)
		o.back = make(chan struct{})
	}()
}

// foreign is what may hold a request up.
const foreign = "a credential plugin, WrapTransport or Dial that does not obey its context?"

// unsettledError is that of a request that was given up and goes on. See locks.Lock.
type unsettledError struct {
	cause error // the end of its context
	after time.Duration
	over  <-chan struct{}
}

func (e *unsettledError) Error() string {
	return fmt.Sprintf("a request has not come back for %v: %s (%v)", e.after.Round(time.Second), foreign, e.cause)
}

func (e *unsettledError) Unwrap() error { return e.cause }

// Unsettled returns a channel that is closed when the request has come back.
func (e *unsettledError) Unsettled() <-chan struct{} { return e.over }

// Timeout reports whether time ran out. An url.Error, which will wrap it, asks only for that.
func (e *unsettledError) Timeout() bool { return errors.Is(e.cause, context.DeadlineExceeded) }
