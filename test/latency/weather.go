// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// weather is what happens to the answers of a server.
type weather struct {
	Name        string
	Least, Most time.Duration // how late an answer is
	Lost        float64       // the share of answers after which a connection is silent
}

func constant(d time.Duration) weather { return weather{Name: d.String(), Least: d, Most: d} }

// weathers are those of the curve.
func weathers() []weather {
	var all []weather
	for _, seconds := range []float64{0.1, 0.8, 1, 1.5, 2.1, 3.5, 4.5, 6, 8} {
		all = append(all, constant(time.Duration(seconds*float64(time.Second))))
	}
	return append(all,
		weather{Name: "0.1-5s", Least: 100 * time.Millisecond, Most: 5 * time.Second},
		weather{Name: "0.1s, 20% lost", Least: 100 * time.Millisecond, Most: 100 * time.Millisecond, Lost: 0.2},
		weather{Name: "1s, 20% lost", Least: time.Second, Most: time.Second, Lost: 0.2},
	)
}

// late delivers what src says to dst, in order, each chunk as late as the
// weather has it. What is lost, and all after it, never comes. It returns when
// either is closed.
func (w weather) late(dst io.Writer, src io.Reader, done <-chan struct{}) {
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
				delay := w.Least + rand.N(w.Most-w.Least+1)
				select {
				case chunks <- chunk{data[:n], time.Now().Add(delay), rand.Float64() < w.Lost}:
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

// counts are what an elector asks of the network.
type counts struct {
	mu                    sync.Mutex
	requests, connections int
}

func (c *counts) add(requests, connections int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests += requests
	c.connections += connections
}

func (c *counts) read() (requests, connections int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests, c.connections
}

// dial returns connections made by dial whose answers come late.
func (w weather) dial(dial func(ctx context.Context, network, address string) (net.Conn, error), c *counts) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c.add(0, 1)
		r, p := io.Pipe()
		l := &lateConn{Conn: conn, answers: r, done: make(chan struct{})}
		go func() {
			w.late(p, conn, l.done)
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
