// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http/httptrace"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// errAborted ends the dials that closeAll finds under way.
var errAborted = errors.New("the connections of this election were closed")

// rawDial opens one TCP connection.
type rawDial func(ctx context.Context, network, addr string) (net.Conn, error)

// conns knows every open TCP connection and every dial under way, so that all
// can be ended at once. Safe for concurrent use.
type conns struct {
	mu   sync.Mutex
	open map[*conn]struct{}
	// epoch ends when closeAll is called; dials of an epoch end with it.
	epoch context.Context
	end   context.CancelCauseFunc
	// blind says that find could not see a connection through its wrapping.
	blind atomic.Bool
}

func newConns() *conns {
	c := &conns{open: make(map[*conn]struct{})}
	c.epoch, c.end = context.WithCancelCause(context.Background())
	return c
}

// dialer returns a dial function that makes each connection abrupt (SO_LINGER 0) and known to
// c.
func (c *conns) dialer(dial rawDial) rawDial {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		epoch := c.current()
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(epoch, func() { cancel(errAborted) })()
		nc, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if err := abrupt(nc); err != nil {
			_ = nc.Close()
			return nil, fmt.Errorf("setting SO_LINGER on the connection to %s: %w", addr, err)
		}
		return c.add(epoch, nc, addr)
	}
}

// abrupt makes Close discard undelivered data. A connection without that option, such as one
// from a user's dial function, stays as it is.
func abrupt(nc net.Conn) error {
	if l, ok := nc.(interface{ SetLinger(sec int) error }); ok {
		return l.SetLinger(0)
	}
	return nil
}

func (c *conns) current() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.epoch
}

func (c *conns) add(epoch context.Context, nc net.Conn, addr string) (net.Conn, error) {
	tracked := &conn{Conn: nc, owner: c, addr: addr, heard: time.Now()}
	c.mu.Lock()
	defer c.mu.Unlock()
	if epoch.Err() != nil {
		_ = nc.Close()
		return nil, errAborted
	}
	c.open[tracked] = struct{}{}
	return tracked, nil
}

// closeAll ends every connection and every dial. Later dials work again.
func (c *conns) closeAll() {
	c.mu.Lock()
	open, end := c.open, c.end
	c.open = make(map[*conn]struct{})
	c.epoch, c.end = context.WithCancelCause(context.Background())
	end(errAborted)
	c.mu.Unlock()
	for nc := range open {
		_ = nc.Conn.Close() // it may be closed already, which is fine
	}
}

// lives reports whether a lane has an idle connection on which the server was heard since
// that time.
func (c *conns) lives(lane int32, since time.Time) bool {
	return slices.ContainsFunc(c.all(), func(nc *conn) bool {
		idle, heard := nc.idle(lane)
		return idle && !heard.Before(since)
	})
}

// closeIdle closes the idle connections of a lane on which nothing was heard since that time.
// It reports false if it cannot tell which are idle.
func (c *conns) closeIdle(lane int32, since time.Time) bool {
	for _, nc := range c.all() {
		if idle, heard := nc.idle(lane); idle && heard.Before(since) {
			_ = nc.Close() // it may be closed already, which is fine
		}
	}
	return !c.blind.Load()
}

// retire lets no connection that is open now serve another request.
func (c *conns) retire() {
	for _, nc := range c.all() {
		nc.retire()
	}
}

// turnFrom lets a connection whose server refused a request serve no more of them, nor those to
// the same address that have served: the next request would find them idle.
func (c *conns) turnFrom(refused *conn) {
	for _, nc := range c.all() {
		if nc == refused || nc.addr == refused.addr && nc.turns() {
			if nc.retire() {
				_ = nc.Close() // it may be closed already, which is fine
			}
		}
	}
}

func (c *conns) all() []*conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.open))
}

// service is one request that a connection serves.
type service struct {
	by *conn // nil before it is known, or if find could not see it
}

// trace notes which connection serves a request, and when it is idle again.
func (c *conns) trace(s *service) *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			if s.by = c.find(info.Conn); s.by != nil {
				s.by.serve(s)
			}
		},
		PutIdleConn: func(error) {
			if s.by != nil {
				s.by.served(s)
			}
		},
	}
}

// find returns the connection below nc, which may have TLS around it, and an exec plugin's
// wrapping, which shares its address.
func (c *conns) find(nc net.Conn) *conn {
	for {
		if found, ok := nc.(*conn); ok {
			return found
		}
		outer, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		nc = outer.NetConn()
	}
	var found []*conn
	for _, open := range c.all() {
		if open.LocalAddr() == nc.LocalAddr() {
			found = append(found, open)
		}
	}
	if len(found) != 1 {
		c.blind.Store(true)
		return nil
	}
	return found[0]
}

// conn is one tracked TCP connection.
type conn struct {
	net.Conn
	owner *conns
	addr  string // that was dialed

	mu      sync.Mutex
	given   bool // to a lane, which may hold it idle
	lane    int32
	serves  *service // nil if none
	used    bool     // it has served, or serves
	retired bool
	heard   time.Time
}

// give notes the lane that has the connection.
func (c *conn) give(lane int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.given, c.lane = true, lane
}

// idle reports whether it is idle in a lane, and when the server was last heard.
func (c *conn) idle(lane int32) (idle bool, heard time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.given && c.lane == lane && c.serves == nil, c.heard
}

// retire lets the connection serve no request after the present one. It reports whether the
// connection is idle: then it stays open.
func (c *conn) retire() (idle bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retired = true
	return c.serves == nil
}

// turns reports whether the connection may be left because another one to its address was. One
// that has served nothing may be on its way to a request, which would fail.
func (c *conn) turns() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

func (c *conn) serve(s *service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serves, c.used = s, true
}

// served notes that a request is over. Another request may have the connection by now.
func (c *conn) served(s *service) {
	c.mu.Lock()
	last := c.serves == s
	if last {
		c.serves = nil
	}
	last = last && c.retired
	c.mu.Unlock()
	if last {
		_ = c.Close() // it has served its last request
	}
}

// Read reads, and notes that the server was heard.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.mu.Lock()
		c.heard = time.Now()
		c.mu.Unlock()
	}
	return n, err
}

// Close closes the connection at once and forgets it.
func (c *conn) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.open, c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}
