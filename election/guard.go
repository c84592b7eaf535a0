// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
)

// ErrUntrusted says that a guard refused a write, or cut it off, because the term that
// it belongs to is no longer trusted. The error that wraps it says which of the two: a
// write that was cut off may have been done.
var ErrUntrusted = errors.New("the term is no longer trusted")

// Guard returns a transport that sends requests by next, but writes only while this
// term is trusted. Once it is not, the guard refuses each write with an error that wraps
// [ErrUntrusted], and cuts off those that are on their way. Requests that only read pass,
// see [OnlyReads]. The check reads the boot-time clock, so it refuses at once when a
// stopped process or a suspended machine runs again.
//
// A deposed leader can then write only between the check and the wire. The guard cannot
// close that window: the process may be stopped right there, and a request that is cut
// off may have arrived. Only a receiver that compares tokens closes it (S12). An upgraded
// connection is cut off if its answer's body is the connection, as net/http has it. client-go's
// executors keep theirs: they are only kept from beginning.
//
// If the context of a write carries another term, the write belongs to that one. The transport
// is safe for concurrent use if next is.
func (t Term) Guard(next http.RoundTripper) http.RoundTripper { return &guard{t, next} }

type guard struct {
	term Term
	next http.RoundTripper
}

// RoundTrip sends a request, if it may be sent.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if OnlyReads(req) {
		return g.next.RoundTrip(req)
	}
	term, found := TermFromContext(req.Context())
	if !found {
		term = g.term
	}
	if term.TrustedFor() <= 0 {
		if req.Body != nil {
			_ = req.Body.Close() // a RoundTripper must close it; nothing was sent
		}
		return nil, term.untrusted(false)
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	forget := context.AfterFunc(term.trust.over, func() { cancel(term.untrusted(true)) })
	done := func() { forget(); cancel(nil) }
	resp, err := g.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		done()
		return nil, reason(ctx, err)
	}
	body := &guardedBody{resp.Body, ctx, done}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		if _, writable := resp.Body.(io.Writer); !writable {
			body.done() // somebody below keeps the connection, as client-go's executors do
			return resp, nil
		}
		context.AfterFunc(ctx, func() { _ = body.ReadCloser.Close() }) // package http has let go of it
	}
	resp.Body = body
	return resp, nil
}

var upgraded = regexp.MustCompile(`/pods/[^/]+/(exec|attach|portforward)$`)

// Upgrades reports whether a request asks for a connection that can carry anything in both directions.
// client-go's executors say so in a header that no transport around them sees, hence the path.
func Upgrades(req *http.Request) bool {
	return req.Header.Get("Upgrade") != "" || upgraded.MatchString(req.URL.Path)
}

// OnlyReads reports whether a request changes nothing, so that a guard lets it pass.
// That is a GET, HEAD or OPTIONS that does not upgrade the connection, see [Upgrades].
func OnlyReads(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions:
		return !Upgrades(req)
	}
	return false
}

// reason returns why a guard cut a request off, or else err.
func reason(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, ErrUntrusted) {
		return cause
	}
	return err
}

// untrusted says that a write of the term was refused or, if it was sent, cut off.
func (t Term) untrusted(sent bool) error {
	switch {
	case t.Token == 0:
		return fmt.Errorf("not sent: %w: this process does not lead", ErrUntrusted)
	case sent:
		return fmt.Errorf("cut off, and may have been done: %w: token %d on %v", ErrUntrusted, t.Token, t.Lock)
	}
	return fmt.Errorf("not sent: %w: token %d on %v", ErrUntrusted, t.Token, t.Lock)
}

// guardedBody is the body of an answer to a write, or a connection that was upgraded. It ends with the term, too.
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

// Write writes to a connection that was upgraded.
func (b *guardedBody) Write(p []byte) (int, error) {
	w, is := b.ReadCloser.(io.Writer)
	if !is {
		return 0, errors.ErrUnsupported
	}
	n, err := w.Write(p)
	return n, reason(b.ctx, err)
}

// Close closes the body, and ends the guarding of it.
func (b *guardedBody) Close() error {
	err := b.ReadCloser.Close()
	b.done()
	return err
}
