// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"net"
	"sync"
)

// Dial opens a connection, as net.Dialer.DialContext does.
type Dial func(ctx context.Context, network, addr string) (net.Conn, error)

// Wire cuts the connections of one candidate as a network does that drops packets: without a word to either end.
// The zero value lets everything through.
type Wire struct {
	mu  sync.Mutex
	cut chan struct{} // closed when the wire is whole again; nil while it is
}

// Cut holds up every byte, in both directions, and every new connection, until Heal.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut == nil {
		w.cut = make(chan struct{})
	}
}

// Heal lets everything through that is held up, except what belongs to a connection that was closed meanwhile.
func (w *Wire) Heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut != nil {
		close(w.cut)
		w.cut = nil
	}
}

// wait returns when the wire is whole, or done is closed.
func (w *Wire) wait(done <-chan struct{}) {
	w.mu.Lock()
	cut := w.cut
	w.mu.Unlock()
	if cut == nil {
		return
	}
	select {
	case <-cut:
	case <-done:
	}
}

// Through returns a dial function for connections on the wire.
func (w *Wire) Through(dial Dial) Dial {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		w.wait(ctx.Done())
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		real, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if tcp, is := real.(*net.TCPConn); is {
			_ = tcp.SetLinger(0) // what is not delivered when the connection is closed shall not be
		}
		return &conn{Conn: real, wire: w, done: make(chan struct{})}, nil
	}
}

type conn struct {
	net.Conn
	wire *Wire
	done chan struct{} // closed when the connection is
	once sync.Once
}

// Read holds up what comes.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.wire.wait(c.done)
	return n, err
}

// Write holds up what goes.
func (c *conn) Write(p []byte) (int, error) {
	c.wire.wait(c.done)
	return c.Conn.Write(p)
}

// Close closes the connection. What is held up never passes.
func (c *conn) Close() error {
	c.once.Do(func() { close(c.done) })
	return c.Conn.Close()
}
