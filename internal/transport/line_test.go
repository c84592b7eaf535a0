// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// network is the network that a line dials, in virtual time.
type network struct {
	connect   func(k int32) time.Duration // until the kernel answers dial k, counted from 1
	handshake func(dials int32) time.Duration
	refuse    atomic.Bool
	refuses   func(k int32, addr string) bool // after a millisecond; nil if none does

	dials, now, most atomic.Int32

	mu     sync.Mutex
	dialed []string
}

const never = time.Hour

func always(d time.Duration) func(int32) time.Duration { return func(int32) time.Duration { return d } }

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var errRefused = errors.New("connection refused")

func (n *network) line(t *testing.T, o Options, servers ...string) *line {
	list := []server{{addr: "a"}}
	for _, addr := range servers {
		list = append(list, server{addr: addr})
	}
	under := func(d time.Duration, ctx context.Context) error {
		if now := n.now.Add(1); now > n.most.Load() {
			n.most.Store(now)
		}
		defer n.now.Add(-1)
		return pause(ctx, d)
	}
	l := newLine(o.WithDefaults(), list, dialFunc{
		raw: func(ctx context.Context, to server) (net.Conn, error) {
			k := n.dials.Add(1)
			n.mu.Lock()
			n.dialed = append(n.dialed, to.addr)
			n.mu.Unlock()
			if n.refuse.Load() {
				return nil, errRefused
			}
			if n.refuses != nil && n.refuses(k, to.addr) {
				return nil, errors.Join(pause(ctx, time.Millisecond), errRefused)
			}
			if n.connect != nil {
				if err := under(n.connect(k), ctx); err != nil {
					return nil, err
				}
			}
			conn, _ := net.Pipe()
			return conn, nil
		},
		secure: func(ctx context.Context, raw net.Conn, _ server) (net.Conn, error) {
			if n.handshake == nil {
				return raw, nil
			}
			return raw, under(n.handshake(n.dials.Load()), ctx)
		},
	})
	t.Cleanup(l.abort)
	return l
}

func in(t *testing.T, l *line, limit time.Duration) (took time.Duration, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	start := time.Now()
	conn, err := l.get(ctx, time.Time{})
	if conn != nil {
		t.Cleanup(func() { _ = conn.Close() })
	}
	return time.Since(start), err
}

func TestNoMoreThanTwoDialsToAServerAreUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{handshake: always(3 * time.Second)}
		l := n.line(t, Options{})
		for range 20 {
			go func() { _, _ = l.get(t.Context(), time.Time{}) }()
		}
		time.Sleep(time.Minute)
		if most := n.most.Load(); most != 2 {
			t.Errorf("%d dials were under way at once, want 2", most)
		}
		if got := n.dials.Load(); got > 24 {
			t.Errorf("%d dials for 20 requests", got)
		}
	})
}

// TestARequestThatHasEndedDialsNothing: its connection would stay open after the election.
func TestARequestThatHasEndedDialsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		l := n.line(t, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.get(ctx, time.Time{}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if got := n.dials.Load(); got > 0 {
			t.Errorf("%d dials", got)
		}
	})
}

func TestADialThatIsUnderWayServesTheNextRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{handshake: always(3 * time.Second)}
		l := n.line(t, Options{})
		if _, err := in(t, l, 2*time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a request of 2s got %v", err)
		}
		if took, err := in(t, l, 2*time.Second); err != nil || took != time.Second {
			t.Errorf("the next one got a connection after %v, %v", took, err)
		}
	})
}

// TestASlowHandshakeIsNotGivenUp, and does not cause many more.
func TestASlowHandshakeIsNotGivenUp(t *testing.T) {
	for _, handshake := range []time.Duration{time.Second, 2100 * time.Millisecond, 3500 * time.Millisecond, 8 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			n := &network{handshake: always(handshake)}
			l := n.line(t, Options{})
			took, err := in(t, l, 10*time.Second)
			if err != nil || took != handshake {
				t.Errorf("%v: a connection after %v, %v", handshake, took, err)
			}
			if got := n.dials.Load(); got > 5 {
				t.Errorf("%v: %d dials for one connection", handshake, got)
			}
			before := n.dials.Load()
			time.Sleep(time.Minute) // the others end
			if _, err := in(t, l, 10*time.Second); err != nil {
				t.Error(err)
			}
			if got := n.dials.Load() - before; got > 3 {
				t.Errorf("%v: %d dials for the next connection, though it is known to be slow", handshake, got)
			}
		})
	}
}

// TestAKernelThatDoesNotAnswerIsLeftWithinADialInterval: behind a Service's address the next
// dial may reach another server.
func TestAKernelThatDoesNotAnswerIsLeftWithinADialInterval(t *testing.T) {
	for dead := range int32(4) {
		synctest.Test(t, func(t *testing.T) {
			n := &network{connect: func(k int32) time.Duration {
				if k <= dead {
					return never
				}
				return time.Millisecond
			}}
			took, err := in(t, n.line(t, Options{}), 10*time.Second)
			if want := time.Duration(dead)*DialIntervalDefault + time.Millisecond; err != nil || took != want {
				t.Errorf("%d dead: a connection after %v, %v, want %v", dead, took, err, want)
			}
		})
	}
}

// TestATimeoutOfTheKernelIsNoRefusal, although it comes before the context says that it has
// ended: both have the same deadline.
func TestATimeoutOfTheKernelIsNoRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		l := newLine(Options{}.WithDefaults(), []server{{addr: "a"}}, dialFunc{raw: func(context.Context, server) (net.Conn, error) {
			if dials++; dials == 1 {
				return nil, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
			}
			conn, _ := net.Pipe()
			return conn, nil
		}})
		t.Cleanup(l.abort)
		if _, err := in(t, l, time.Minute); err != nil {
			t.Error(err)
		}
	})
}

func TestDialsThatNobodyAnswersBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{connect: always(never)}
		l := n.line(t, Options{})
		for range 30 {
			_, _ = in(t, l, 2*time.Second)
		}
		if got := n.dials.Load(); got > 70 {
			t.Errorf("%d dials in a minute", got)
		}
	})
}

// TestOneOfTwoSlowDialsMakesRoom for one that may reach a server which is not
// frozen.
func TestOneOfTwoSlowDialsMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{handshake: func(dials int32) time.Duration {
			if dials <= 2 {
				return never
			}
			return time.Millisecond
		}}
		l := n.line(t, Options{})
		took, err := in(t, l, 10*time.Second)
		if err != nil || took > 1500*time.Millisecond {
			t.Errorf("a connection after %v, %v", took, err)
		}
	})
}

func TestServersThatAllRefuseAreAnErrorAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		n.refuse.Store(true)
		l := n.line(t, Options{}, "b")
		for range 2 {
			if took, err := in(t, l, time.Minute); took != 0 || !errors.Is(err, errRefused) {
				t.Errorf("after %v: %v", took, err)
			}
		}
		if len(n.dialed) != 4 || n.dialed[0] != "a" || n.dialed[1] != "b" {
			t.Errorf("dialed were %v", n.dialed)
		}
	})
}

func TestTheNearestServerIsDialedFirstAndTheNextWhereItIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{connect: func(k int32) time.Duration {
			if k%2 == 1 { // the near one
				return never
			}
			return time.Millisecond
		}}
		l := n.line(t, Options{}, "b")
		if took, err := in(t, l, time.Minute); took != DialIntervalDefault+time.Millisecond || err != nil {
			t.Errorf("a connection after %v, %v", took, err)
		}
		if len(n.dialed) != 2 || n.dialed[0] != "a" || n.dialed[1] != "b" {
			t.Errorf("dialed were %v", n.dialed)
		}
	})
}

func TestAConnectionThatNobodyWantsIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{handshake: always(3 * time.Second)}
		l := n.line(t, Options{})
		_, _ = in(t, l, time.Second)
		time.Sleep(2500 * time.Millisecond)
		spare := func() []spare {
			l.mu.Lock()
			defer l.mu.Unlock()
			return slices.Clone(l.spare)
		}
		before := spare()
		if len(before) == 0 {
			t.Fatal("no connection is spare")
		}
		time.Sleep(time.Minute)
		if _, err := before[0].conn.Write([]byte{1}); len(spare()) != 0 || err == nil {
			t.Errorf("%d are spare, and to write on one is %v", len(spare()), err)
		}
	})
}

// TestASpareConnectionServesNoRequestThatWantsAYoungerOne: its server may be dead
// by now.
func TestASpareConnectionServesNoRequestThatWantsAYoungerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{handshake: always(time.Second)}
		l := n.line(t, Options{})
		_, _ = in(t, l, 500*time.Millisecond)
		time.Sleep(time.Second)
		began := time.Now()
		conn, err := l.get(t.Context(), began)
		if err != nil || time.Since(began) != time.Second {
			t.Fatalf("a connection after %v, %v", time.Since(began), err)
		}
		_ = conn.Close()
	})
}

// TestARefusalIsNotAnsweredInHaste while another dial, to that server or to another one, goes
// on without an answer.
func TestARefusalIsNotAnsweredInHaste(t *testing.T) {
	for name, servers := range map[string][]string{"one server": nil, "another hangs": {"b"}, "another refuses too": {"b", "c"}} {
		for _, waiting := range []int{1, 4} {
			t.Run(fmt.Sprint(name, ", ", waiting, " waiting"), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := &network{handshake: always(never), refuses: func(k int32, addr string) bool {
						return addr == "a" && (len(servers) > 0 || k > 1) || addr == "c"
					}}
					l := n.line(t, Options{}, servers...)
					for range waiting {
						go func() { _, _ = in(t, l, 10*time.Second) }()
					}
					time.Sleep(11 * time.Second)
					if got, most := n.dials.Load(), int32(1+len(servers))*60; got > most {
						t.Errorf("%d dials in 10s, want %d at most", got, most)
					}
				})
			})
		}
	}
}

// TestADialThatSucceedsAsItIsAbortedBringsNoConnection: it may be closed already.
func TestADialThatSucceedsAsItIsAbortedBringsNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conn net.Conn
		l := newLine(calm().WithDefaults(), []server{{addr: "a"}}, dialFunc{raw: func(context.Context, server) (net.Conn, error) {
			time.Sleep(time.Second)
			conn, _ = net.Pipe()
			return conn, nil
		}})
		_, _ = in(t, l, 500*time.Millisecond)
		l.abort()
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		if len(l.spare) > 0 {
			t.Fatal("it is spare")
		}
		if _, err := conn.Write([]byte{1}); err == nil {
			t.Error("it is open")
		}
	})
}
