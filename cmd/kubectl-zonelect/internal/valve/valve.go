// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package valve cuts the network connections of this process, as a network does that drops packets:
// without a word to either end.
package valve

import (
	"context"
	"net"
	"slices"
	"sync"
)

// Dial opens a connection, as net.Dialer.DialContext does.
type Dial func(ctx context.Context, network, addr string) (net.Conn, error)

// Valve lets the bytes of its connections through, or holds them up. The zero value is not ready for
// use: make one with New. Its methods are safe for concurrent use.
type Valve struct {
	mu   sync.Mutex
	open chan struct{} // closed while bytes pass
}

// New returns a valve that is open.
func New() *Valve {
	v := &Valve{open: make(chan struct{})}
	close(v.open)
	return v
}

// Shut holds up every byte, in both directions, and every new connection, until Open.
func (v *Valve) Shut() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.isOpen() {
		v.open = make(chan struct{})
	}
}

// Open lets everything through that is held up, except what belongs to a connection that was closed
// meanwhile.
func (v *Valve) Open() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.isOpen() {
		close(v.open)
	}
}

// isOpen reports whether bytes pass. The caller holds mu.
func (v *Valve) isOpen() bool {
	select {
	case <-v.open:
		return true
	default:
		return false
	}
}

// passes waits until the valve is open. It returns false if done is closed before.
func (v *Valve) passes(done <-chan struct{}) bool {
	v.mu.Lock()
	open := v.open
	v.mu.Unlock()
	select {
	case <-open:
	case <-done:
	}
	select {
	case <-done:
		return false
	default:
		return true
	}
}

// Through returns a dial function for connections through the valve.
func (v *Valve) Through(dial Dial) Dial {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if !v.passes(ctx.Done()) {
			return nil, ctx.Err()
		}
		real, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if tcp, is := real.(*net.TCPConn); is {
			_ = tcp.SetLinger(0) // what is not delivered when the program closes the connection shall not be
		}
		near, far := net.Pipe()
		c := &conn{Conn: near, far: far, real: real, valve: v, written: make(chan []byte, backlog), done: make(chan struct{})}
		go c.send()
		go c.receive()
		return c, nil
	}
}

// backlog is how many writes a connection holds up before the next one waits, as a kernel's buffer does.
const backlog = 256

// conn is a connection through a valve. What it receives comes through a pipe, which knows
// deadlines; what is written to it waits in a queue. Its two goroutines end when it is closed at
// either end.
type conn struct {
	net.Conn // the near end of the pipe
	far      net.Conn
	real     net.Conn
	valve    *Valve
	written  chan []byte
	done     chan struct{}
	once     sync.Once
}

// Write leaves p to the connection, and does not wait until it has passed.
func (c *conn) Write(p []byte) (int, error) {
	select {
	case <-c.done:
		return 0, net.ErrClosed
	default:
	}
	select {
	case c.written <- slices.Clone(p):
		return len(p), nil
	case <-c.done:
		return 0, net.ErrClosed
	}
}

// Close closes both ends. What has not passed never will.
func (c *conn) Close() error {
	c.once.Do(func() {
		close(c.done)
		_ = c.Conn.Close() // a pipe's never fails
		_ = c.far.Close()
		_ = c.real.Close() // the other end may have closed it, which is fine
	})
	return nil
}

// LocalAddr and RemoteAddr are those of the network's connection.
func (c *conn) LocalAddr() net.Addr  { return c.real.LocalAddr() }
func (c *conn) RemoteAddr() net.Addr { return c.real.RemoteAddr() }

func (c *conn) send() {
	defer func() { _ = c.Close() }()
	for {
		select {
		case p := <-c.written:
			if !c.valve.passes(c.done) {
				return
			}
			if _, err := c.real.Write(p); err != nil {
				return
			}
		case <-c.done:
			return
		}
	}
}

func (c *conn) receive() {
	defer func() { _ = c.Close() }()
	p := make([]byte, 32<<10)
	for {
		n, err := c.real.Read(p)
		if !c.valve.passes(c.done) {
			return
		}
		if n > 0 {
			if _, err := c.far.Write(p[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
