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
	"github.com/zonelect/zonelect/internal/transport"
)

// GuardConfig returns a copy of cfg for the clients of a leader's work: what
// they write is refused with an election.UntrustedError once the term is not
// trusted any more, as Term.Guard says, and what they read is not. current
// is Elector.Term, or returns one term.
//
// Writes have HTTP/1.1 connections of their own, on which trust is looked at
// again before each packet, and of which the kernel delivers nothing more once
// they are closed (S12). So what lies between check and wire is one system
// call. Only a receiver that compares tokens closes that gap.
//
// It is not for clients that write on replicas which do not lead, such as those
// that post Events of a follower. cfg is not changed; its Transport must be nil.
func GuardConfig(cfg *rest.Config, current func() election.Term) (*rest.Config, error) {
	if cfg == nil || current == nil {
		return nil, errors.New("guarding a client: the rest.Config or the term is nil")
	}
	wire := named(cfg)
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

// split sends writes another way than reads, each guarded for the term that is current
// when it begins.
type split struct {
	reads, writes http.RoundTripper
	current       func() election.Term
}

// RoundTrip sends a request its way, if it may be sent.
func (s split) RoundTrip(req *http.Request) (*http.Response, error) {
	if election.OnlyReads(req) {
		return s.reads.RoundTrip(req)
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

// SetLinger sets the option of a TCP connection, as transport wants it.
func (c *guardedConn) SetLinger(seconds int) error {
	if l, ok := c.Conn.(interface{ SetLinger(int) error }); ok {
		return l.SetLinger(seconds)
	}
	return nil
}
