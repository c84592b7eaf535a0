// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/operator"
)

// counted is a connection that is counted while it is open.
type counted struct {
	net.Conn
	open   *atomic.Int64
	closed atomic.Bool
}

func (c *counted) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.open.Add(-1)
	}
	return c.Conn.Close()
}

func TestRunLeavesNoConnectionOpen(t *testing.T) {
	o, end := pod()
	defer end()
	var open, dialed atomic.Int64
	o.Config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		open.Add(1)
		dialed.Add(1)
		return &counted{Conn: conn, open: &open}, nil
	}
	for range 10 {
		ctx, stop := context.WithCancel(t.Context())
		err := operator.Run(ctx, "my-operator", func(ctx context.Context, _ election.Term) error {
			stop()
			<-ctx.Done()
			return nil
		}, o)
		if err != nil {
			t.Fatal(err)
		}
		// A dial that was under way ends in a goroutine of its own.
		for limit := time.Now().Add(time.Minute); open.Load() > 0 && time.Now().Before(limit); {
			time.Sleep(time.Millisecond)
		}
		if n := open.Load(); n > 0 {
			t.Fatalf("%d connections of %d are open still", n, dialed.Load())
		}
	}
}
