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

	"k8s.io/client-go/transport"
)

// dialer opens connections for an http.Transport.
type dialer struct {
	raw     rawDial
	race    race
	servers []server
	auth    *transport.Config // never changed; copied for each use
}

// plain races TCP connections, for http:// and for proxies.
func (d *dialer) plain(ctx context.Context, network, addr string) (net.Conn, error) {
	ways := d.ways(addr)
	conn, err := d.race.run(ctx, len(ways), func(ctx context.Context, k int) (net.Conn, error) {
		return d.raw(ctx, network, ways[k%len(ways)].addr)
	})
	return conn, explain(err, addr)
}

// tls races TCP connections with their TLS handshakes: a server counts as
// answering only when it has spoken.
func (d *dialer) tls(ctx context.Context, network, addr string) (net.Conn, error) {
	config, err := d.tlsConfig()
	if err != nil {
		return nil, explain(err, addr)
	}
	ways := d.ways(addr)
	conn, err := d.race.run(ctx, len(ways), func(ctx context.Context, k int) (net.Conn, error) {
		return d.handshake(ctx, network, ways[k%len(ways)], config)
	})
	return conn, explain(err, addr)
}

func (d *dialer) handshake(ctx context.Context, network string, to server, config *tls.Config) (net.Conn, error) {
	raw, err := d.raw(ctx, network, to.addr)
	if err != nil {
		return nil, err
	}
	config = config.Clone()
	config.ServerName = to.name
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("TLS handshake with %s: %w", to.addr, err)
	}
	return conn, nil
}

// ways returns where a connection to addr may lead: to any of the API servers
// if it is one of them, else (a proxy) to itself.
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

// tlsConfig reads the certificate files anew, so that rotated ones are used.
func (d *dialer) tlsConfig() (*tls.Config, error) {
	auth := *d.auth // TLSConfigFor stores in it what it reads
	config, err := transport.TLSConfigFor(&auth)
	if err != nil {
		return nil, fmt.Errorf("preparing TLS: %w", err)
	}
	return config, nil
}

func explain(err error, addr string) error {
	if err == nil {
		return nil
	}
	return &dialError{addr: addr, err: err}
}

// dialError says where to a connection could not be made. It has Timeout
// because url.Error, which will be around it, asks the error next to it alone.
type dialError struct {
	addr string
	err  error
}

func (e *dialError) Error() string { return "connecting to " + e.addr + ": " + e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// Timeout reports whether time ran out before anybody answered.
func (e *dialError) Timeout() bool { return errors.Is(e.err, context.DeadlineExceeded) }
