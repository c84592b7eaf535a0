// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
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
}

func newConns() *conns {
	c := &conns{open: make(map[*conn]struct{})}
	c.epoch, c.end = context.WithCancelCause(context.Background())
	return c
}

// dialer returns dial with each connection made abrupt (SO_LINGER 0) and known
// to c.
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
		return c.add(epoch, nc)
	}
}

// abrupt makes Close discard what is not delivered yet. A connection that has
// no such option, as one from a dial function of the user's, stays as it is.
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

func (c *conns) add(epoch context.Context, nc net.Conn) (net.Conn, error) {
	tracked := &conn{Conn: nc, owner: c}
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
		_ = nc.Conn.Close() // it may be closed already, which is as good
	}
}

// conn is one tracked TCP connection.
type conn struct {
	net.Conn
	owner *conns
}

// Close closes the connection at once and forgets it.
func (c *conn) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.open, c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}
