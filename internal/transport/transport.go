// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/zonelect/zonelect/internal/transport/live"
)

// idleTimeout closes connections before a firewall on the way forgets them.
const idleTimeout = 90 * time.Second

// mostIdle is how many connections are kept for the next requests: the one for renewals, and those that
// overtook it while the server was slow.
const mostIdle = 4

// keepAlive ends a silent connection to a dead server after 15 s, at no cost to the server. A
// watch on it would otherwise stay silent for as long as it may last.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 2}

// Transport is an http.RoundTripper with connections of its own. Use it as the
// Transport of an http.Client without a Timeout, which would cut watches; the
// context of each request bounds it. Safe for concurrent use.
type Transport struct {
	wrapped http.RoundTripper // pool, with authentication around it
	pool    *pool
}

// New returns a Transport to the API server that cfg describes, with its authentication. cfg
// is not changed; its Timeout, QPS and Burst have no meaning here, and its Transport must be
// nil: a round tripper made elsewhere has connections of its own. WrapTransport and Dial are
// honored.
func New(cfg *rest.Config, o Options) (*Transport, error) {
	if cfg.Transport != nil {
		return nil, errors.New("transport: rest.Config.Transport is set, but elections need connections of their own: use WrapTransport")
	}
	server, err := address(cfg)
	if err != nil {
		return nil, fmt.Errorf("transport: %w", err)
	}
	dial := &dialer{options: o.withDefaults(), server: server, known: map[string]string{}}
	cfg = rest.CopyConfig(cfg)
	cfg.NextProtos = []string{"http/1.1"}
	raw := cfg.Dial
	if raw == nil {
		raw = (&net.Dialer{KeepAliveConfig: keepAlive}).DialContext
	} else {
		dial.known = nil // its addresses are its own
	}
	dial.open = newConns(raw)
	cfg.Dial = dial.open.DialContext // an exec plugin puts its dialer around it, which closes connections when the credentials change
	if dial.auth, err = cfg.TransportConfig(); err != nil {
		return nil, fmt.Errorf("transport: preparing authentication: %w", err)
	}
	if dial.auth.Proxy == nil {
		dial.auth.Proxy = http.ProxyFromEnvironment
	}
	p, err := newPool(dial)
	if err != nil {
		return nil, fmt.Errorf("transport: %w", err)
	}
	wrapped, err := transport.HTTPWrappersForConfig(dial.auth, p)
	if err != nil {
		return nil, fmt.Errorf("transport: preparing authentication: %w", err)
	}
	return &Transport{wrapped: wrapped, pool: p}, nil
}

// address returns the host and port of the API server.
func address(cfg *rest.Config) (string, error) {
	u, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return "", fmt.Errorf("API server address: %w", err) // which names it
	}
	ports := map[string]string{"https": "443", "http": "80"}
	if ports[u.Scheme] == "" {
		return "", fmt.Errorf("API server address %q: its scheme is %q, use https", u.Redacted(), u.Scheme)
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), ports[u.Scheme])), nil
}

// RoundTrip sends one request, as http.RoundTripper says.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.wrapped.RoundTrip(req)
}

// CloseConnections closes every connection at once, with all requests on them, and ends the
// dials under way. Data that the kernel has not delivered by then is discarded. The Transport
// can still be used; it dials new connections.
func (t *Transport) CloseConnections() {
	t.pool.dial.open.closeAll()
	t.pool.main.closeIdle()
	t.pool.aside.closeIdle()
}

// pool is the round tripper below authentication. Each watch has a connection of its own. What is aside has
// others than all else, so that a renewal never finds its connection taken.
type pool struct {
	dial        *dialer
	main, aside *lane
	watches     *http.Transport
}

func newPool(d *dialer) (*pool, error) {
	proxied, err := d.tlsConfig()
	if err != nil {
		return nil, err
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	open := func() *http.Transport {
		return &http.Transport{
			Proxy: d.auth.Proxy,
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				return d.dial(ctx, network, addr, false)
			},
			DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				return d.dial(ctx, network, addr, true)
			},
			TLSClientConfig:     proxied,
			TLSHandshakeTimeout: d.options.Patience,
			IdleConnTimeout:     idleTimeout,
			MaxIdleConnsPerHost: mostIdle,
			Protocols:           protocols,
			DisableCompression:  d.auth.DisableCompression,
		}
	}
	apart := func() *lane { return newLane(open, d.options) }
	p := &pool{dial: d, main: apart(), aside: apart(), watches: open()}
	p.watches.DisableKeepAlives = true
	return p, nil
}

// RoundTrip sends one request on an idle connection or a new one.
func (p *pool) RoundTrip(req *http.Request) (*http.Response, error) {
	var by http.RoundTripper = p.main
	switch {
	case req.URL.Query().Get("watch") == "true":
		by = p.watches
	case live.IsAside(req.Context()):
		by = p.aside
	}
	resp, err := by.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 == 3 {
		_ = resp.Body.Close() // nothing in it is needed
		return nil, fmt.Errorf("the server redirects (%d), as no Kubernetes API server does, and is not followed, because the credentials "+
			"would go along: is a proxy or a login page in front of it?", resp.StatusCode)
	}
	return resp, nil
}
