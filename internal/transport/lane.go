// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/internal/transport/live"
)

// lane is the connections for one kind of requests. It keeps those on which the server was heard from last,
// until it has heard from others. Safe for concurrent use.
type lane struct {
	open    func() *http.Transport // makes a pool without connections
	options Options

	mu      sync.Mutex
	kept    *http.Transport // its connections serve the requests that doubt nothing
	heard   time.Time       // when one of them last brought the answer to a request that was sent after doubted
	doubted time.Time       // what was sent before this proves nothing
	leaves  time.Time       // no refusal costs the connections before this
	pauses  *backoff.ExponentialBackOff
}

func newLane(open func() *http.Transport, o Options) *lane {
	return &lane{open: open, options: o, kept: open(), pauses: sleep.Delays(o.AttemptTimeout/2, o.Patience)}
}

// answer is the outcome of a request on the connections of a pool.
type answer struct {
	resp *http.Response
	err  error
	by   *http.Transport
}

// good reports whether the answer settles which connections are kept. A refusal does not while another answer
// may come.
func (a answer) good() bool { return a.err == nil && !refuses(a.resp.StatusCode) }

// refuses reports whether an answer says that the server cannot serve now: it sheds load, or
// what is behind it fails. Another server may be well.
func refuses(status int) bool {
	return status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
}

// RoundTrip sends one request. If there is reason to doubt the connections that are kept, it goes on a new
// one. A read goes on a kept one, too, if the new one is not usable soon.
func (l *lane) RoundTrip(req *http.Request) (*http.Response, error) {
	since, _ := live.Wanted(req.Context())
	sent := time.Now()
	l.mu.Lock()
	kept := l.kept
	doubts := !l.heard.IsZero() && (!l.heard.After(since) || !l.heard.After(l.doubted))
	l.mu.Unlock()
	var a answer
	switch {
	case !doubts:
		a = ask(req.Context(), req, kept)
	case req.Method == http.MethodGet:
		a = l.askBoth(req, kept)
	default:
		a = ask(req.Context(), req, l.open())
	}
	l.note(req, a, sent)
	return a.resp, a.err
}

func ask(ctx context.Context, req *http.Request, by *http.Transport) answer {
	resp, err := by.RoundTrip(req.WithContext(ctx)) //nolint:bodyclose // whoever sent the request closes it
	return answer{resp, err, by}
}

// note keeps the connections on which the server was heard from, and closes the others. Those that are idle
// may be as dead as one that gave no answer in time.
func (l *lane) note(req *http.Request, a answer, sent time.Time) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.err != nil {
		if errors.Is(req.Context().Err(), context.DeadlineExceeded) && a.by == l.kept {
			l.doubted = sent
		}
		if a.by != l.kept {
			a.by.CloseIdleConnections()
		}
		return
	}
	if a.by != l.kept {
		l.kept.CloseIdleConnections()
		l.kept = a.by
	}
	if sent.After(l.doubted) {
		l.heard = now
	}
	switch {
	case a.resp.StatusCode == http.StatusUnauthorized: // a rotated client certificate needs another connection
		l.doubted = now
	case refuses(a.resp.StatusCode) && now.After(l.leaves): // else handshakes would load the server
		if now.Sub(l.leaves) > l.options.Patience {
			l.pauses.Reset()
		}
		l.doubted, l.leaves = now, now.Add(l.pauses.NextBackOff())
	}
}

// closeIdle closes the connections that no request uses.
func (l *lane) closeIdle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept.CloseIdleConnections()
}

// askBoth asks on a new connection, and also on one that is kept, if the new one is not usable after a
// DialInterval. The first answer settles which is kept; the other request is canceled.
func (l *lane) askBoth(req *http.Request, kept *http.Transport) answer {
	fresh, came, usable := l.open(), make(chan answer, 2), make(chan struct{}, 1)
	ends := map[*http.Transport]context.CancelFunc{}
	start := func(ctx context.Context, by *http.Transport) {
		ctx, ends[by] = context.WithCancel(ctx)
		go func() { came <- ask(ctx, req, by) }()
	}
	got := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sleep.Wake(usable) }}
	start(httptrace.WithClientTrace(req.Context(), got), fresh)
	var all []answer
	select {
	case <-usable:
		all = append(all, <-came)
	case a := <-came:
		all = append(all, a)
	case <-time.After(l.options.DialInterval):
	}
	if !slices.ContainsFunc(all, answer.good) {
		start(context.WithValue(req.Context(), keptOnly{}, true), kept)
	}
	for len(all) < len(ends) && !slices.ContainsFunc(all, answer.good) {
		all = append(all, <-came)
	}
	won := best(all, fresh)
	for by, end := range ends {
		if by != won.by {
			end()
		}
	}
	for _, a := range all {
		if a.by != won.by {
			a.drop()
		}
	}
	go func() {
		for range len(ends) - len(all) {
			(<-came).drop()
		}
	}()
	if won.by != fresh {
		fresh.CloseIdleConnections() // also the one that comes later
	}
	return won
}

// best returns the answer that counts: one that is good, or else a refusal, or else the error of the new connection.
func best(all []answer, fresh *http.Transport) answer {
	rank := func(a answer) int {
		switch {
		case a.good():
			return 0
		case a.err == nil:
			return 1
		case a.by == fresh:
			return 2
		}
		return 3
	}
	return slices.MinFunc(all, func(a, b answer) int { return rank(a) - rank(b) })
}

// drop closes an answer that nobody reads.
func (a answer) drop() {
	if a.err == nil {
		_ = a.resp.Body.Close() // nothing in it is needed
	}
}
