// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/transport"
)

// network is what dials reach, in virtual time: dial k, counted from 1, takes so long, and fails with err.
type network struct {
	dial   func(k int, addr string) (takes time.Duration, err error)
	mu     sync.Mutex
	dialed []string
}

func (n *network) dialer(o Options) *dialer {
	d := &dialer{options: o.withDefaults(), known: map[string]string{}}
	d.open = newConns(func(ctx context.Context, _, addr string) (net.Conn, error) {
		n.mu.Lock()
		n.dialed = append(n.dialed, addr)
		takes, err := n.dial(len(n.dialed), addr)
		n.mu.Unlock()
		select {
		case <-time.After(takes):
			conn, _ := net.Pipe()
			if err != nil {
				return nil, err
			}
			return conn, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
	d.auth = &transport.Config{DialHolder: &transport.DialHolder{Dial: d.open.DialContext}}
	return d
}

const never = time.Hour

var errNoName = &net.DNSError{Err: "no such host", IsNotFound: true}

func TestDialsCompete(t *testing.T) {
	for name, tc := range map[string]struct {
		takes  func(k int) time.Duration
		dialed int
		took   time.Duration
	}{
		"one that works":                {func(int) time.Duration { return 100 * time.Millisecond }, 1, 100 * time.Millisecond},
		"a second beside a silent one":  {func(k int) time.Duration { return never * (2 - time.Duration(k)) }, 2, 200 * time.Millisecond},
		"a third instead of the second": {func(k int) time.Duration { return never * max(0, 3-time.Duration(k)) }, 3, 600 * time.Millisecond},
		"few beside a slow one":         {func(int) time.Duration { return 3 * time.Second }, 4, 3 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := &network{dial: func(k int, _ string) (time.Duration, error) { return tc.takes(k), nil }}
			began := time.Now()
			conn, err := n.dialer(Options{}).dial(t.Context(), "tcp", "a:1", false)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			defer conn.Close()
			if took := time.Since(began); took < tc.took || took > tc.took+200*time.Millisecond || len(n.dialed) != tc.dialed {
				t.Errorf("%s: %d dials, %v; want %d, %v", name, len(n.dialed), took, tc.dialed, tc.took)
			}
		})
	}
}

func TestDialsThatAllFailAreAnErrorAtOnceAndSilenceIsOneAfterAPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{dial: func(int, string) (time.Duration, error) { return 0, errNoName }}
		began := time.Now()
		d := n.dialer(Options{})
		d.known["a:1"] = "b:1"
		_, err := d.dial(t.Context(), "tcp", "a:1", false)
		if !errors.Is(err, errNoName) || time.Since(began) != 0 || !slices.Equal(n.dialed, []string{"a:1", "b:1"}) {
			t.Errorf("after %v %v, and %v were dialed", time.Since(began), err, n.dialed)
		}
		n = &network{dial: func(int, string) (time.Duration, error) { return never, nil }}
		_, err = n.dialer(Options{}).dial(t.Context(), "tcp", "a:1", false)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != 10*time.Second || len(n.dialed) > 8 {
			t.Errorf("after %v and %d dials %v", took, len(n.dialed), err)
		}
	})
}

// TestAfterASlowDialASilentOneIsJoinedWithinHalfAnAttemptTimeout: what made the one slow may be over, and the
// server of the other may have lost its power.
func TestAfterASlowDialASilentOneIsJoinedWithinHalfAnAttemptTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		d := n.dialer(Options{})
		for _, want := range []time.Duration{9 * time.Second, time.Second} {
			n.dialed = nil
			n.dial = func(k int, _ string) (time.Duration, error) {
				if want > time.Second {
					return want, nil
				}
				return never * time.Duration(max(0, 2-k)), nil
			}
			began := time.Now()
			conn, err := d.dial(t.Context(), "tcp", "a:1", false)
			must(t, err)
			defer conn.Close()
			if took := time.Since(began); took != want {
				t.Errorf("it took %v, want %v", took, want)
			}
		}
	})
}

// TestTheAddressThatAnsweredLastProvesTheServersName: its certificate need not have an address.
func TestTheAddressThatAnsweredLastProvesTheServersName(t *testing.T) {
	d := (&network{}).dialer(Options{})
	near, far := net.Pipe()
	d.auth.TLS.NextProtos = []string{"http/1.1"}
	d.auth.DialHolder.Dial = func(context.Context, string, string) (net.Conn, error) { return near, nil }
	go d.try(t.Context(), "tcp", "name:1", "10.0.0.1:1", true, time.Minute, make(chan dialed, 1))
	name := ""
	_ = tls.Server(far, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		name = hello.ServerName
		return nil, errNoName
	}}).Handshake()
	if name != "name" {
		t.Errorf("it is to prove that it is %q", name)
	}
}

// TestTheAddressThatAnsweredLastIsDialedIfTheNameDoesNotResolve, whether that is said or not.
func TestTheAddressThatAnsweredLastIsDialedIfTheNameDoesNotResolve(t *testing.T) {
	for took, resolves := range map[time.Duration]func() (time.Duration, error){
		0:                      func() (time.Duration, error) { return 0, errNoName },
		200 * time.Millisecond: func() (time.Duration, error) { return never, errNoName },
	} {
		synctest.Test(t, func(t *testing.T) {
			n := &network{dial: func(k int, addr string) (time.Duration, error) {
				if k > 1 && addr == "name:1" {
					return resolves()
				}
				return 0, nil
			}}
			d := n.dialer(Options{})
			for _, want := range []time.Duration{0, took} {
				began := time.Now()
				conn, err := d.dial(t.Context(), "tcp", "name:1", false)
				must(t, err)
				defer conn.Close()
				if got := time.Since(began); got != want {
					t.Errorf("it took %v, want %v", got, want)
				}
			}
			if want := []string{"name:1", "name:1", "pipe"}; !slices.Equal(n.dialed, want) {
				t.Errorf("%v were dialed, want %v", n.dialed, want)
			}
		})
	}
}

// TestADialThatSucceedsAsItIsAbortedBringsNoConnection: it may be closed already.
func TestADialThatSucceedsAsItIsAbortedBringsNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conn net.Conn
		d := (&network{}).dialer(calm())
		d.auth.DialHolder.Dial = func(context.Context, string, string) (net.Conn, error) {
			time.Sleep(time.Second)
			conn, _ = net.Pipe()
			return conn, nil
		}
		time.AfterFunc(time.Second/2, d.open.closeAll)
		if _, err := d.dial(t.Context(), "tcp", "a:1", false); !errors.Is(err, errAborted) {
			t.Errorf("got %v", err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if _, err := conn.Write([]byte{1}); err == nil {
			t.Error("it is open")
		}
	})
}
