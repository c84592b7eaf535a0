// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// relayChunk is how much a relay holds behind a shut valve; the sender's and its own socket buffers hold more.
const relayChunk = 32 << 10

// relay joins two TCP connections until both are done or ctx ends. Each
// direction has its valve. While a valve is shut nothing passes it: no data, no
// end of the stream and no reset, whatever happens to the sender. What is behind
// it is delivered once it opens, as TCP would retransmit it.
func relay(ctx context.Context, near, far *net.TCPConn, there, back *valve) {
	stop := context.AfterFunc(ctx, func() {
		abort(near)
		abort(far)
	})
	defer stop()
	var both sync.WaitGroup
	both.Go(func() { pump(ctx, far, near, there) })
	both.Go(func() { pump(ctx, near, far, back) })
	both.Wait()
	near.Close()
	far.Close()
}

// pump moves one direction of a relay, from src to dst through the valve.
func pump(ctx context.Context, dst, src *net.TCPConn, v *valve) {
	for buffer := make([]byte, relayChunk); ; {
		n, err := src.Read(buffer)
		if v.wait(ctx) != nil {
			return
		}
		if n > 0 {
			if _, lost := dst.Write(buffer[:n]); lost != nil {
				err = lost
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			_ = dst.CloseWrite() // or the other direction finds out
			return
		case err != nil: // one side is gone without closing: so is the other, once it can know
			abort(dst)
			abort(src)
			return
		}
	}
}

// abort closes a connection with a reset, so that nothing lingers.
func abort(c *net.TCPConn) {
	// Both fail only on a connection that is closed already.
	_ = c.SetLinger(0)
	_ = c.Close()
}
