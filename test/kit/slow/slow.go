// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package slow has the answers of a server come late, or never, on connections whose
// other end is fast: as behind a proxy, or an overloaded server.
package slow

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Answers is what happens to the answers of a server.
type Answers struct {
	Name        string
	Least, Most time.Duration // how late an answer is
	Lost        float64       // the share of answers after which a connection is silent
}

// late delivers what src says to dst, in order, each chunk as late as the
// answers are. What is lost, and all after it, never comes. It returns when
// either is closed.
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

// Dial returns connections made by dial whose answers come late, and calls opened for
// each.
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

// SetDeadline does nothing: whoever waits closes the connection.
func (*lateConn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing.
func (*lateConn) SetReadDeadline(time.Time) error { return nil }
