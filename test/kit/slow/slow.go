// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package slow delays what goes to and comes from a server on connections whose ends are
// fast, as behind a proxy or an overloaded server.
package slow

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// Way says how what clients send to a server, and what it answers, is delayed on the way.
type Way struct{ Requests, Answers Delay }

// late delivers what src sends to dst, in order, each chunk as late as d says. It returns when src
// is at its end and all has arrived, or done is closed.
func late(dst io.Writer, src io.Reader, d Delay, done <-chan struct{}) {
	type chunk struct {
		data []byte
		due  time.Time
	}
	chunks := make(chan chunk, 1024)
	go func() {
		defer close(chunks)
		for {
			data := make([]byte, 32<<10)
			n, err := src.Read(data)
			if n > 0 {
				now := time.Now()
				select {
				case chunks <- chunk{data[:n], now.Add(d.at(now))}:
				case <-done:
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	for c := range chunks {
		timer := time.NewTimer(time.Until(c.due))
		select {
		case <-timer.C:
		case <-done:
			timer.Stop()
			return
		}
		if _, err := dst.Write(c.data); err != nil {
			return
		}
	}
}

// Dialer makes a connection.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// Dial returns a dialer for connections made by dial on which everything comes late. It
// calls opened for each.
func (w Way) Dial(dial Dialer, opened func()) Dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		opened()
		l := &lateConn{Conn: conn, done: make(chan struct{})}
		l.answers = deliver(conn, w.Answers, l.done)
		if w.Requests == nil {
			l.end = conn.Close
			return l, nil
		}
		r, p := io.Pipe()
		l.requests, l.end = p, p.Close
		go func() {
			late(conn, r, w.Requests, nil) // what a client that is gone has sent is still on its way
			_ = r.Close()                  // it never fails
			_ = conn.Close()               // nobody is left
		}()
		return l, nil
	}
}

// deliver returns what conn answers, late.
func deliver(conn net.Conn, d Delay, done <-chan struct{}) *io.PipeReader {
	r, p := io.Pipe()
	go func() {
		late(p, conn, d, done)
		_ = p.Close() // it never fails
	}()
	return r
}

// lateConn is a connection on which everything comes late.
type lateConn struct {
	net.Conn
	answers  *io.PipeReader
	requests *io.PipeWriter // nil if they do not
	once     sync.Once
	done     chan struct{}
	end      func() error // ends what the client sends
}

// Read reads what has arrived.
func (l *lateConn) Read(p []byte) (int, error) { return l.answers.Read(p) }

// Write sends p on its way.
func (l *lateConn) Write(p []byte) (int, error) {
	if l.requests == nil {
		return l.Conn.Write(p)
	}
	return l.requests.Write(p)
}

// Close closes the connection at once. What is on its way to the server still arrives.
func (l *lateConn) Close() error {
	l.once.Do(func() { close(l.done) })
	_ = l.answers.Close() // it never fails
	return l.end()
}

// SetDeadline does nothing: a caller that waits closes the connection instead.
func (*lateConn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing.
func (*lateConn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing if what is sent comes late: that is taken at once.
func (l *lateConn) SetWriteDeadline(t time.Time) error {
	if l.requests == nil {
		return l.Conn.SetWriteDeadline(t)
	}
	return nil
}
