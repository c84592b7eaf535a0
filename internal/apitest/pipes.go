// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"sync"

	"k8s.io/client-go/rest"
)

// Pipes is a network in memory, for clients and a server in virtual time: the server listens at it,
// and the clients dial it. NewPipes makes one.
type Pipes struct {
	conns chan net.Conn
	over  chan struct{} // closed by Close
	close func()

	mu   sync.Mutex
	open []net.Conn
	cut  bool
}

// NewPipes returns a network in which nobody listens yet.
func NewPipes() *Pipes {
	over := make(chan struct{})
	return &Pipes{conns: make(chan net.Conn), over: over, close: sync.OnceFunc(func() { close(over) })}
}

// Accept returns the next connection.
func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.over:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and Dial. Connections stay.
func (p *Pipes) Close() error {
	p.close()
	return nil
}

// Addr returns the address that Config names.
func (*Pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

var errRefused = errors.New("connection refused")

// Dial connects, whatever the network and the address, once the server accepts.
func (p *Pipes) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	p.mu.Lock()
	p.open = append(p.open, near, far)
	cut := p.cut
	p.mu.Unlock()
	if cut {
		return nil, errRefused
	}
	select {
	case p.conns <- far:
		return near, nil
	case <-p.over:
		return nil, errRefused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Cut closes all connections. Nobody gets another.
func (p *Pipes) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for _, c := range p.open {
		_ = c.Close()
	}
}

// Config returns the configuration of a client.
func (p *Pipes) Config() *rest.Config {
	return &rest.Config{
		Host: "http://" + p.Addr().String(), Dial: p.Dial, ContentConfig: rest.ContentConfig{ContentType: "application/json"},
		Proxy: func(*http.Request) (*url.URL, error) { return nil, nil },
	}
}
