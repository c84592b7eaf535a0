// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"k8s.io/client-go/util/connrotation"
)

// errAborted ends the dials that closeAll finds under way.
var errAborted = errors.New("the connections of this election were closed")

// conns are all open TCP connections and all dials under way, so that they can be ended at once. Safe for
// concurrent use.
type conns struct {
	*connrotation.Dialer

	mu sync.Mutex
	// epoch ends when closeAll is called; dials of an epoch end with it.
	epoch context.Context
	end   context.CancelFunc
}

// newConns returns the conns that dial opens. Each is abrupt (SO_LINGER 0): Close discards undelivered data.
func newConns(dial rawDial) *conns {
	c := &conns{Dialer: connrotation.NewDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		l, ok := nc.(interface{ SetLinger(sec int) error }) // a connection from a user's function may have none
		if !ok {
			return nc, nil
		}
		if err := l.SetLinger(0); err != nil {
			_ = nc.Close()
			return nil, fmt.Errorf("setting SO_LINGER on the connection to %s: %w", addr, err)
		}
		return nc, nil
	})}
	c.epoch, c.end = context.WithCancel(context.Background())
	return c
}

// until returns a context that closeAll ends, too.
func (c *conns) until(ctx context.Context) (context.Context, func()) {
	c.mu.Lock()
	epoch := c.epoch
	c.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(epoch, func() { cancel(errAborted) })
	return ctx, func() { stop(); cancel(nil) }
}

// closeAll ends every connection and every dial. Later dials work again.
func (c *conns) closeAll() {
	c.mu.Lock()
	c.end()
	c.epoch, c.end = context.WithCancel(context.Background())
	c.mu.Unlock()
	c.CloseAll()
}
