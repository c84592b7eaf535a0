// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/environment"
	"github.com/zonelect/zonelect/internal/transport"
)

// GuardConfig returns a copy of cfg for the clients of a leader's work. Their writes are
// refused with election.ErrUntrusted once the term is no longer trusted, as Term.Guard
// says; their reads are not. current is Elector.Term, or returns one term.
//
// Writes have HTTP/1.1 connections of their own. Trust is checked again there before each
// packet, and the kernel delivers nothing more of a connection once it is closed (S12). So
// the gap between check and wire is one system call. Only a receiver that compares tokens
// closes that gap. Exec, attach and port-forward keep cfg's connections: they begin only in a
// term, and what an open one still carries is not checked.
//
// It is not for clients that write on replicas which do not lead, such as those that post a
// follower's Events. cfg is not changed; its Transport must be nil.
func GuardConfig(cfg *rest.Config, current func() election.Term) (*rest.Config, error) {
	if cfg == nil || current == nil {
		return nil, errors.New("guarding a client: the rest.Config or the term is nil")
	}
	wire := environment.Named(cfg)
	dial := wire.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	wire.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &guardedConn{conn, current}, nil
	}
	writes, err := transport.New(wire, transport.Options{})
	if err != nil {
		return nil, fmt.Errorf("guarding a client: %w", err)
	}
	config := rest.CopyConfig(cfg)
	config.Wrap(func(reads http.RoundTripper) http.RoundTripper {
		return split{reads: reads, writes: writes, current: current}
	})
	return config, nil
}

// split sends writes through another round tripper than reads. Each write is guarded for the
// term that is current when it begins.
type split struct {
	reads, writes http.RoundTripper
	current       func() election.Term
}

// RoundTrip sends a request through its round tripper, if it may be sent.
func (s split) RoundTrip(req *http.Request) (*http.Response, error) {
	switch {
	case election.OnlyReads(req):
		return s.reads.RoundTrip(req)
	case election.Upgrades(req): // writes takes answers only
		return s.current().Guard(s.reads).RoundTrip(req)
	}
	return s.current().Guard(s.writes).RoundTrip(req)
}

// guardedConn is a connection that writes only while the term is trusted.
type guardedConn struct {
	net.Conn
	current func() election.Term
}

// Write writes, or fails with election.ErrUntrusted.
func (c *guardedConn) Write(p []byte) (int, error) {
	if c.current().TrustedFor() <= 0 {
		return 0, election.ErrUntrusted
	}
	return c.Conn.Write(p)
}

// SetLinger sets the option of a TCP connection, as package transport requires.
func (c *guardedConn) SetLinger(seconds int) error {
	if l, ok := c.Conn.(interface{ SetLinger(int) error }); ok {
		return l.SetLinger(seconds)
	}
	return nil
}
