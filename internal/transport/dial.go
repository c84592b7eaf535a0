// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"k8s.io/client-go/transport"

	"github.com/zonelect/zonelect/internal/live"
)

// dialer opens connections for an http.Transport.
type dialer struct {
	open    *conns
	raw     rawDial
	options Options
	servers []server
	auth    *transport.Config // never changed; copied for each use

	mu    sync.Mutex
	lines map[lineKey]*line
}

type lineKey struct {
	network, addr string
	secure        bool
}

// get waits for a connection for as long as its request does. A secure connection has had its
// TLS handshake: a server counts as answering only when it has spoken. Connections for
// http:// and for proxies have had none.
func (d *dialer) get(ctx context.Context, key lineKey, lane int32) (net.Conn, error) {
	if request, ok := ctx.Value(requestKey{}).(context.Context); ok {
		ctx = request // http.Transport goes on dialing after that has ended
	}
	since, _ := live.Wanted(ctx)
	conn, err := d.line(key).get(ctx, since)
	if err != nil {
		return nil, &dialError{addr: key.addr, err: err}
	}
	if c := d.open.find(conn); c != nil {
		c.give(lane)
	}
	return conn, nil
}

// requestKey is the key of the context of the request that a dial is for.
type requestKey struct{}

func (d *dialer) line(key lineKey) *line {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.lines[key]
	if l == nil {
		open := dialFunc{raw: func(ctx context.Context, to server) (net.Conn, error) { return d.raw(ctx, key.network, to.addr) }}
		if key.secure {
			open.secure = func(ctx context.Context, raw net.Conn, to server) (net.Conn, error) {
				return d.handshake(ctx, raw, to)
			}
		}
		l = newLine(d.options, d.ways(key.addr), open)
		d.lines[key] = l
	}
	return l
}

// turnFrom has the next dials go to other servers than the one at addr, if there are any.
func (d *dialer) turnFrom(addr string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.lines {
		l.turnFrom(addr)
	}
}

// abort gives up all dials.
func (d *dialer) abort() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.lines {
		l.abort()
	}
}

func (d *dialer) handshake(ctx context.Context, raw net.Conn, to server) (net.Conn, error) {
	config, err := d.tlsConfig()
	if err != nil {
		_ = raw.Close() // nothing was sent on it
		return nil, err
	}
	config.ServerName = to.name
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("TLS handshake with %s: %w", to.addr, err)
	}
	return conn, nil
}

// ways returns where a connection to addr may lead: to any of the API servers if addr is one
// of them, otherwise (a proxy) to itself.
func (d *dialer) ways(addr string) []server {
	for _, s := range d.servers {
		if strings.EqualFold(s.addr, addr) {
			return d.servers
		}
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	return []server{{addr: addr, name: host}}
}

// tlsConfig rereads the certificate files, so that rotated ones are used.
func (d *dialer) tlsConfig() (*tls.Config, error) {
	auth := *d.auth // TLSConfigFor stores in it what it reads
	config, err := transport.TLSConfigFor(&auth)
	if err != nil {
		return nil, fmt.Errorf("preparing TLS: %w", err)
	}
	return config, nil
}

// dialError says to which address no connection could be made. It has Timeout because
// url.Error, which will wrap it, asks only the error directly inside it.
type dialError struct {
	addr string
	err  error
}

func (e *dialError) Error() string { return "connecting to " + e.addr + ": " + e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// Timeout reports whether time ran out before a server answered.
func (e *dialError) Timeout() bool { return errors.Is(e.err, context.DeadlineExceeded) }
