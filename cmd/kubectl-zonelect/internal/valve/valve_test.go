// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package valve

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// connected returns both ends of a connection through a valve.
func connected(t *testing.T, v *Valve) (near, far net.Conn) {
	t.Helper()
	server, client := net.Pipe()
	near, err := v.Through(func(context.Context, string, string) (net.Conn, error) { return client, nil })(t.Context(), "tcp", "server:443")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = near.Close(), server.Close() })
	return near, server
}

// heard returns a channel that gets each byte that comes out of a connection, and is closed at its end.
func heard(c net.Conn) <-chan byte {
	bytes := make(chan byte, 100)
	go func() {
		defer close(bytes)
		p := make([]byte, 1)
		for {
			if _, err := c.Read(p); err != nil {
				return
			}
			bytes <- p[0]
		}
	}()
	return bytes
}

func TestAShutValveHoldsUpBothDirectionsUntilItOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := New()
		near, far := connected(t, v)
		here, there := heard(near), heard(far)
		v.Shut()
		v.Shut()
		if _, err := near.Write([]byte("n")); err != nil {
			t.Fatal(err) // a kernel takes it, too
		}
		go func() { _, _ = far.Write([]byte("f")) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(here)+len(there) != 0 {
			t.Fatal("bytes passed")
		}
		v.Open()
		v.Open()
		if n, f := <-there, <-here; n != 'n' || f != 'f' {
			t.Errorf("%c and %c came through", n, f)
		}
	})
}

func TestWhatAClosedConnectionHeldNeverPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := New()
		near, far := connected(t, v)
		there := heard(far)
		v.Shut()
		_, _ = near.Write([]byte("n"))
		synctest.Wait()
		if err := near.Close(); err != nil {
			t.Fatal(err)
		}
		v.Open()
		if b, more := <-there; more {
			t.Errorf("%c came through", b)
		}
		if _, err := near.Write([]byte("n")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("writing to it: %v", err)
		}
	})
}

func TestNoConnectionIsMadeThroughAShutValve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := New()
		v.Shut()
		dials := 0
		dial := v.Through(func(context.Context, string, string) (net.Conn, error) { dials++; return nil, io.ErrUnexpectedEOF })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := dial(ctx, "tcp", "server:443"); !errors.Is(err, context.DeadlineExceeded) || dials > 0 {
			t.Errorf("%v after %d dials", err, dials)
		}
		v.Open()
		if _, err := dial(t.Context(), "tcp", "server:443"); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error(err)
		}
	})
}

func TestAReadKeepsItsDeadlineWhileTheValveIsShut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := New()
		near, _ := connected(t, v)
		v.Shut()
		_ = near.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestTheEndOfTheOtherSideIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := connected(t, New())
		_ = far.Close()
		if _, err := near.Read(make([]byte, 1)); err == nil {
			t.Error("there is more to read")
		}
		synctest.Wait() // its goroutines have ended
	})
}
