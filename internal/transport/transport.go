// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/zonelect/zonelect/internal/live"
)

// idleTimeout closes connections before a firewall on the way forgets them.
const idleTimeout = 90 * time.Second

// mostIdle is how many connections to one address are kept for the next requests: the one for
// renewals, and those that overtook it while the server was slow.
const mostIdle = 4

// keepAlive ends a silent connection to a dead server after 15 s, at no cost to the server. A
// watch on it would otherwise stay silent for as long as it may last.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 2}

// Transport is an http.RoundTripper with connections of its own. Use it as the
// Transport of an http.Client without a Timeout, which would cut watches; the
// context of each request bounds it. Safe for concurrent use.
type Transport struct {
	wrapped http.RoundTripper // pool, with authentication around it, and what gives that up
	pool    *pool
}

// New returns a Transport to the API server that cfg describes, with its authentication. cfg
// is not changed; its Timeout, QPS and Burst have no meaning here, and its Transport must be
// nil: a round tripper made elsewhere has connections of its own. WrapTransport and Dial are
// honored.
func New(cfg *rest.Config, o Options) (*Transport, error) {
	if cfg == nil {
		return nil, errors.New("transport: the rest.Config is nil")
	}
	if cfg.Transport != nil {
		return nil, errors.New("transport: rest.Config.Transport is set, but an election needs connections of its own: leave it nil, and use WrapTransport to see the requests")
	}
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("transport: %w", err)
	}
	list, err := servers(cfg, o.Servers)
	if err != nil {
		return nil, fmt.Errorf("transport: %w", err)
	}
	open := newConns()
	auth, err := authentication(cfg, open)
	if err != nil {
		return nil, fmt.Errorf("transport: %w", err)
	}
	o = o.WithDefaults()
	p := &pool{open: open, proxy: auth.Proxy, refusals: newRefusals(o), asides: newRefusals(o), dial: &dialer{
		open:    open,
		raw:     auth.DialHolder.Dial,
		options: o,
		servers: list,
		auth:    auth,
		lines:   map[lineKey]*line{},
	}}
	proxied, err := p.dial.tlsConfig()
	if err != nil {
		return nil, fmt.Errorf("transport: %w", err)
	}
	if err := p.proxyAllows(list); err != nil {
		return nil, fmt.Errorf("transport: %w", err)
	}
	for lane := range p.lanes {
		p.lanes[lane] = p.roundTripper(int32(lane), proxied)
	}
	wrapped, err := transport.HTTPWrappersForConfig(auth, Bounded(p))
	if err != nil {
		return nil, fmt.Errorf("transport: preparing authentication: %w", err)
	}
	return &Transport{wrapped: obey(wrapped, o.AttemptTimeout/2), pool: p}, nil
}

// authentication returns client-go's view of cfg. Our dialer goes in first, so that an exec
// plugin can put its dialer around it, which closes connections when the credentials change.
func authentication(cfg *rest.Config, open *conns) (*transport.Config, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.NextProtos = []string{"http/1.1"}
	dial := cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{KeepAliveConfig: keepAlive}).DialContext
	}
	cfg.Dial = open.dialer(dial)
	auth, err := cfg.TransportConfig()
	if err != nil {
		return nil, fmt.Errorf("preparing authentication: %w", err)
	}
	if auth.Proxy == nil {
		auth.Proxy = http.ProxyFromEnvironment
	}
	return auth, nil
}

// RoundTrip sends one request, as http.RoundTripper says. It returns soon after the request's
// context has ended. If a credential plugin or a WrapTransport does not, the request goes on, and
// the error says so, see locks.Lock.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.wrapped.RoundTrip(req)
}

// CloseConnections closes every connection at once, with all requests on them, and ends the
// dials under way. Data that the kernel has not delivered by then is discarded. The Transport
// can still be used; it dials new connections.
func (t *Transport) CloseConnections() {
	t.pool.open.closeAll()
	t.pool.dial.abort()
	t.pool.closeIdle()
}

// pool is the round tripper below authentication. Its lanes have connections of their own.
// Two serve requests: a request that overtakes a slow one uses the other lane, so that it
// does not take the slow one's connection, when that turns out to be alive, from the next
// request. Watches have a lane of their own, because each keeps its connection. Requests aside use
// it too, so that a renewal never finds its connection taken.
type pool struct {
	open  *conns
	dial  *dialer
	proxy func(*http.Request) (*url.URL, error)
	lanes [3]*http.Transport
	lane  atomic.Int32 // 0 or 1, for requests

	refusals *refusals
	asides   *refusals // those of requests aside
}

const watchLane = 2 // and of requests aside

// RoundTrip sends one request on an idle connection or a new one.
func (p *pool) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, lane := req.Context(), p.lane.Load()
	aside := live.IsAside(ctx)
	apart := aside || req.URL.Query().Get("watch") == "true"
	since, wants := live.Wanted(ctx)
	overtakes := wants && !apart && !p.open.lives(lane, since)
	switch {
	case apart:
		lane = watchLane
	case overtakes:
		lane = 1 - lane
	}
	if wants {
		p.leave(lane, since)
	}
	served := new(service)
	ctx = httptrace.WithClientTrace(context.WithValue(ctx, requestKey{}, ctx), p.open.trace(served))
	sent := time.Now()
	resp, err := p.lanes[lane].RoundTrip(req.WithContext(ctx))
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		for other := range int32(len(p.lanes)) {
			if !aside || other == lane {
				p.leave(other, sent) // an idle connection may be as dead as the one that gave no answer
			}
		}
	}
	if overtakes && err == nil && !p.open.lives(1-lane, since) && p.lane.CompareAndSwap(1-lane, lane) {
		p.leave(1-lane, since)
	}
	if err == nil && resp.StatusCode == http.StatusUnauthorized {
		// A client certificate belongs to the connection: only the next dial sends a rotated
		// one.
		p.open.retire()
		p.closeIdle()
	}
	if err == nil && served.by != nil && refuses(resp.StatusCode) {
		p.refused(served.by, aside)
	}
	return resp, err
}

// refused leaves a server that refused a request, unless it did so a moment ago. The next request dials,
// perhaps another one. A request aside leaves its own connection alone.
func (p *pool) refused(c *conn, aside bool) {
	switch now := time.Now(); {
	case !aside && p.refusals.costs(now):
		p.open.turnFrom(c)
	case aside && p.asides.costs(now):
		if c.retire() {
			_ = c.Close() // it may be closed already, which is fine
		}
	default:
		return
	}
	p.dial.turnFrom(c.addr)
}

// leave stops a lane from using a connection that may be dead: one on which nothing was heard
// since that time.
func (p *pool) leave(lane int32, since time.Time) {
	if !p.open.closeIdle(lane, since) {
		p.lanes[lane].CloseIdleConnections()
	}
}

func (p *pool) closeIdle() {
	for _, lane := range p.lanes {
		lane.CloseIdleConnections()
	}
}

func (p *pool) roundTripper(lane int32, proxied *tls.Config) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	dial := func(secure bool) rawDial {
		return func(ctx context.Context, network, addr string) (net.Conn, error) {
			return p.dial.get(ctx, lineKey{network, addr, secure}, lane)
		}
	}
	return &http.Transport{
		Proxy:                  p.proxy,
		DialContext:            dial(false),
		DialTLSContext:         dial(true),
		TLSClientConfig:        proxied,
		TLSHandshakeTimeout:    p.dial.options.Patience,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConnsPerHost:    mostIdle,
		MaxResponseHeaderBytes: mostHeaders,
		Protocols:              protocols,
		DisableCompression:     p.dial.auth.DisableCompression,
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
}

// proxyAllows refuses several servers behind a proxy, which would get the first one's name in
// every request.
func (p *pool) proxyAllows(list []server) error {
	if len(list) < 2 {
		return nil
	}
	for _, s := range list {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.url.String(), nil)
		if err != nil {
			return fmt.Errorf("API server address %s: %w", s.url, err)
		}
		via, err := p.proxy(req)
		if err != nil {
			return fmt.Errorf("asking for the proxy to %s: %w", s.url, err)
		}
		if via != nil {
			return fmt.Errorf("a proxy stands before %s, so that only one API server address can be used: give one, or list the addresses in NO_PROXY", s.url)
		}
	}
	return nil
}
