// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/zonelect/zonelect/locks"
)

// ErrUntrusted says that a write was refused, or cut off, because the term it
// belongs to is no longer trusted.
var ErrUntrusted = errors.New("the term is not trusted any more")

// UntrustedError tells of a write that a guard refused or cut off. It wraps
// [ErrUntrusted].
type UntrustedError struct {
	Lock  locks.Description
	Token uint64 // of the term; zero where there never was one
	// Sent says that the write was on its way when trust ended: it may have
	// been done. Otherwise it has not left the process.
	Sent bool
}

func (e *UntrustedError) Error() string {
	switch {
	case e.Token == 0:
		return fmt.Sprintf("not sent: %v: this process does not lead", ErrUntrusted)
	case e.Sent:
		return fmt.Sprintf("cut off, and may have been done: %v: token %d on %v", ErrUntrusted, e.Token, e.Lock)
	}
	return fmt.Sprintf("not sent: %v: token %d on %v", ErrUntrusted, e.Token, e.Lock)
}

// Unwrap returns ErrUntrusted.
func (e *UntrustedError) Unwrap() error { return ErrUntrusted }

// Guard returns next for the writes of this term: a request that changes
// something is refused with an [*UntrustedError] once the term is not trusted
// any more, and cut off if it is on its way then. Requests that only read pass.
// The check reads the boot-time clock, so that a process that was stopped, or a
// machine that was suspended, refuses at once when it runs again.
//
// It narrows the window in which a deposed leader can write to what lies
// between the check and the wire, and does not close it: a process may be
// stopped right there, and a request that is cut off may have arrived. Only a
// receiver that compares tokens closes it (S12).
//
// What only reads is told by [OnlyReads]. Safe for concurrent use if next is.
func (t Term) Guard(next http.RoundTripper) http.RoundTripper {
	return &guard{func() Term { return t }, next}
}

// Guard is Term.Guard for a client that outlives terms: each write belongs to the
// term that its context carries, or else to the one that Term returns when the write
// begins.
func (e *Elector) Guard(next http.RoundTripper) http.RoundTripper {
	return &guard{e.Term, next}
}

type guard struct {
	current func() Term
	next    http.RoundTripper
}

// RoundTrip sends a request, if it may be sent.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if OnlyReads(req) {
		return g.next.RoundTrip(req)
	}
	term, found := TermFromContext(req.Context())
	if !found {
		term = g.current()
	}
	if term.TrustedFor() <= 0 {
		if req.Body != nil {
			_ = req.Body.Close() // a RoundTripper must, and nothing was sent
		}
		return nil, term.untrusted(false)
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	forget := context.AfterFunc(term.trust.over, func() { cancel(term.untrusted(true)) })
	resp, err := g.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		forget()
		err = reason(ctx, err)
		cancel(nil)
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols { // which stays open in both directions until it is cut off
		resp.Body = &guardedBody{resp.Body, ctx, func() { forget(); cancel(nil) }}
	}
	return resp, nil
}

// OnlyReads reports whether a request changes nothing, so that a guard lets it
// pass: GET, HEAD and OPTIONS, unless they upgrade the connection, as for exec,
// on which anything may be sent then.
func OnlyReads(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions:
		return req.Header.Get("Upgrade") == ""
	}
	return false
}

// reason is why a request was cut off, where a guard did that, and err else.
func reason(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, ErrUntrusted) {
		return cause
	}
	return err
}

func (t Term) untrusted(sent bool) error {
	return &UntrustedError{Lock: t.Lock, Token: t.Token, Sent: sent}
}

// guardedBody is the answer to a write, which ends with the term too.
type guardedBody struct {
	io.ReadCloser
	ctx  context.Context
	done func()
}

// Read reads as an io.Reader does.
func (b *guardedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	return n, reason(b.ctx, err)
}

// Close ends the watch over the answer.
func (b *guardedBody) Close() error {
	err := b.ReadCloser.Close()
	b.done()
	return err
}
