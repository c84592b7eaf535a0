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

// How much a relay holds for a peer that does not read, or behind a shut valve,
// before it makes the sender wait.
const (
	relayChunk = 32 << 10
	relayQueue = 16
)

// relay joins two TCP connections until both are done or ctx ends. Each
// direction has its valve. While a valve is shut nothing passes it: no data, no
// end of the stream and no reset, whatever happens to the sender. Data from a
// sender that closed in good order is delivered once the valve opens, as TCP
// would retransmit it; data from a sender that reset its connection is not.
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
	chunks := make(chan []byte, relayQueue)
	broken := make(chan struct{})
	done, finished := context.WithCancel(ctx)
	var reader sync.WaitGroup
	reader.Go(func() { read(done, src, chunks, broken) })
	if deliver(ctx, dst, chunks, broken, v) {
		finished()
		reader.Wait()
		return
	}
	// One side is gone without closing: so is the other, once it can know.
	if v.wait(ctx) == nil {
		abort(dst)
		abort(src)
	}
	finished()
	reader.Wait()
}

// read moves the data of src into chunks. It closes chunks at the end of the
// stream, and broken when the connection breaks.
func read(ctx context.Context, src *net.TCPConn, chunks chan<- []byte, broken chan<- struct{}) {
	for {
		buffer := make([]byte, relayChunk)
		n, err := src.Read(buffer)
		if n > 0 {
			select {
			case chunks <- buffer[:n]:
			case <-ctx.Done():
				return
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			close(chunks)
			return
		case err != nil:
			close(broken)
			return
		}
	}
}

// deliver writes the chunks to dst, each after the valve has been seen open.
// It reports whether the stream came to an orderly end.
func deliver(ctx context.Context, dst *net.TCPConn, chunks <-chan []byte, broken <-chan struct{}, v *valve) bool {
	for {
		var chunk []byte
		more := true
		select {
		case chunk, more = <-chunks:
		case <-broken:
			return false
		case <-ctx.Done():
			return false
		}
		select {
		case <-v.opened():
		case <-broken:
			return false
		case <-ctx.Done():
			return false
		}
		if !more {
			return dst.CloseWrite() == nil
		}
		if _, err := dst.Write(chunk); err != nil {
			return false
		}
	}
}

// abort closes a connection with a reset, so that nothing lingers.
func abort(c *net.TCPConn) {
	// Both fail only on a connection that is closed already.
	_ = c.SetLinger(0)
	_ = c.Close()
}
