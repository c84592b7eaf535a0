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
	"time"

	"k8s.io/client-go/transport"
)

// mostDials is how many dials for one connection are under way at a time.
const mostDials = 2

// dialer opens connections for an http.Transport.
type dialer struct {
	open    *conns
	options Options
	server  string            // host and port of the API server
	auth    *transport.Config // never changed; copied for each use

	mu    sync.Mutex
	took  time.Duration     // how long the last dial took
	known map[string]string // by the name that was dialed, the address that answered last; nil if dials are not ours
}

// rawDial opens one TCP connection.
type rawDial func(ctx context.Context, network, addr string) (net.Conn, error)

// dialed is the outcome of one dial.
type dialed struct {
	conn net.Conn
	err  error
}

// keptOnly is the key of a context that asks for an idle connection and no new one.
type keptOnly struct{}

// errNoneKept says that there was no idle connection.
var errNoneKept = errors.New("no connection was kept")

// dial makes one connection. The first dial starts at once and has a Patience. Others compete with it, one
// at a time, each for twice as long as the one before. A secure connection has had its TLS handshake: a
// server counts as answering only when it has spoken. Connections for http:// and for proxies have had none.
func (d *dialer) dial(ctx context.Context, network, addr string, secure bool) (net.Conn, error) {
	if ctx.Value(keptOnly{}) != nil {
		return nil, errNoneKept
	}
	ctx, cancel := context.WithTimeout(ctx, d.options.Patience)
	defer cancel()
	ctx, done := d.open.until(ctx)
	defer done()
	ways, interval := d.ways(addr)
	came, limit, dials, underWay := make(chan dialed), d.options.Patience, 0, 0
	var errs []error
	for next := time.NewTimer(0); ; {
		select {
		case <-next.C:
			if underWay < mostDials {
				go d.try(ctx, network, addr, ways[dials%len(ways)], secure, limit, came)
				if limit = 2 * d.options.DialInterval << dials; limit <= 0 || limit > d.options.Patience {
					limit = d.options.Patience
				}
				dials, underWay = dials+1, underWay+1
			}
			next.Reset(interval)
		case one := <-came:
			if one.err == nil && ctx.Err() != nil {
				_ = one.conn.Close() // it may be closed already
				one.err = context.Cause(ctx)
			}
			if one.err == nil {
				return one.conn, nil
			}
			errs = append(errs, one.err)
			underWay--
			if dials < len(ways) {
				next.Reset(0)
			} else if underWay == 0 {
				return nil, fmt.Errorf("connecting to %s: %w", addr, errors.Join(errs...))
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("connecting to %s: %w", addr, errors.Join(append(errs, context.Cause(ctx))...))
		}
	}
}

// try makes one dial for a connection to addr, and closes that if nobody takes it.
func (d *dialer) try(ctx context.Context, network, addr, to string, secure bool, limit time.Duration, came chan<- dialed) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	conn, err := d.auth.DialHolder.Dial(limited, network, to)
	if err == nil && secure {
		conn, err = d.handshake(limited, conn, addr)
	}
	if err == nil {
		d.answered(to, conn, time.Since(began))
	}
	select {
	case came <- dialed{conn, err}:
	case <-ctx.Done():
		if err == nil {
			_ = conn.Close() // nothing was sent on it
		}
	}
}

func (d *dialer) handshake(ctx context.Context, raw net.Conn, addr string) (net.Conn, error) {
	config, err := d.tlsConfig()
	if err == nil {
		if config.ServerName == "" || !strings.EqualFold(addr, d.server) { // a proxy has a name of its own
			config.ServerName, _, _ = net.SplitHostPort(addr) // http.Transport has split it before
		}
		conn := tls.Client(raw, config)
		if err = conn.HandshakeContext(ctx); err == nil {
			return conn, nil
		}
	}
	_ = raw.Close() // nothing was sent on it
	return nil, fmt.Errorf("TLS handshake with %s: %w", addr, err)
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

// ways returns the addresses to dial for a connection to addr, in the order of the dials, and how long the first
// dial is alone. The address that answered last is the second, for the time when the name does not resolve.
func (d *dialer) ways(addr string) (ways []string, alone time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.options
	alone = min(max(o.DialInterval, d.took*3/2), max(o.DialInterval, o.AttemptTimeout/2))
	ways = []string{addr}
	if known := d.known[addr]; known != "" && known != addr {
		ways = append(ways, known)
	}
	return ways, alone
}

// answered notes that a dial has brought a connection.
func (d *dialer) answered(to string, conn net.Conn, took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.took = took
	if d.known != nil {
		d.known[to] = conn.RemoteAddr().String()
	}
}
