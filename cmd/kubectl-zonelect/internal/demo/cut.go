// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"net"
	"sync/atomic"
	"time"
)

// Dial opens a connection, as net.Dialer.DialContext does.
type Dial func(ctx context.Context, network, addr string) (net.Conn, error)

// Wire cuts the connections of one candidate as a network does that drops packets: without a word to either end.
// While Cut is true, it holds up every byte, in both directions, and every new connection. What belongs to a connection
// that is closed meanwhile never passes.
type Wire struct{ Cut atomic.Bool }

// hold returns when the wire is whole, or ctx ends.
func (w *Wire) hold(ctx context.Context) {
	for w.Cut.Load() && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
}

// Through returns a dial function for connections on the wire. A nil one dials as client-go does.
func (w *Wire) Through(dial Dial) Dial {
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second}).DialContext
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		w.hold(ctx)
		real, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if tcp, is := real.(*net.TCPConn); is {
			_ = tcp.SetLinger(0) // what is not delivered when the connection is closed shall not be
		}
		return &conn{real, w}, nil
	}
}

type conn struct {
	net.Conn
	wire *Wire
}

// Read holds up what comes.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.wire.hold(context.Background())
	return n, err
}

// Write holds up what goes.
func (c *conn) Write(p []byte) (int, error) {
	c.wire.hold(context.Background())
	return c.Conn.Write(p)
}
