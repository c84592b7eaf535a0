// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package slow delays or drops the answers of a server on connections whose other
// end is fast, as behind a proxy or an overloaded server.
package slow

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Answers says how the answers of a server are delayed or lost.
type Answers struct {
	Name        string
	Least, Most time.Duration // how late an answer is
	Lost        float64       // the share of answers after which a connection is silent
}

// late delivers what src sends to dst, in order, each chunk as late as the
// answers are. A lost chunk never arrives, nor does anything after it. It
// returns when either is closed.
func (a Answers) late(dst io.Writer, src io.Reader, done <-chan struct{}) {
	type chunk struct {
		data []byte
		due  time.Time
		lost bool
	}
	chunks := make(chan chunk, 1024)
	go func() {
		defer close(chunks)
		for {
			data := make([]byte, 32<<10)
			n, err := src.Read(data)
			if n > 0 {
				delay := a.Least + rand.N(a.Most-a.Least+1)
				select {
				case chunks <- chunk{data[:n], time.Now().Add(delay), rand.Float64() < a.Lost}:
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
		if c.lost {
			<-done
			return
		}
		if _, err := dst.Write(c.data); err != nil {
			return
		}
	}
}

// Dialer makes a connection.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// Dial returns a dialer for connections made by dial whose answers come late. It
// calls opened for each.
func (a Answers) Dial(dial Dialer, opened func()) Dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		opened()
		r, p := io.Pipe()
		l := &lateConn{Conn: conn, answers: r, done: make(chan struct{})}
		go func() {
			a.late(p, conn, l.done)
			_ = p.Close() // it never fails
		}()
		return l, nil
	}
}

// lateConn is a connection whose answers come late.
type lateConn struct {
	net.Conn
	answers *io.PipeReader
	once    sync.Once
	done    chan struct{}
}

// Read reads what has arrived.
func (l *lateConn) Read(p []byte) (int, error) { return l.answers.Read(p) }

// Close closes the connection at once.
func (l *lateConn) Close() error {
	l.once.Do(func() { close(l.done) })
	_ = l.answers.Close() // it never fails
	return l.Conn.Close()
}

// SetDeadline does nothing: a caller that waits closes the connection instead.
func (*lateConn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing.
func (*lateConn) SetReadDeadline(time.Time) error { return nil }
