// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core

package e2e_test

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// cut is a way to a server whose connections can be broken.
type cut struct {
	net.Listener
	to string

	mu  sync.Mutex
	all []net.Conn
}

func newCut(t *testing.T, to string) *cut {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	c := &cut{Listener: listener, to: to}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			from, err := c.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { c.pass(from) })
		}
	})
	t.Cleanup(func() {
		_ = c.Close()
		c.sever()
		serving.Wait()
	})
	return c
}

// pass passes on what two connections say, until one of them ends.
func (c *cut) pass(from net.Conn) {
	defer from.Close()
	to, err := new(net.Dialer).Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer to.Close()
	c.mu.Lock()
	c.all = append(c.all, from, to)
	c.mu.Unlock()
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(to, from)
		_ = to.Close()
	}()
	_, _ = io.Copy(from, to)
	_ = from.Close()
	<-over
}

// sever breaks all connections, once, and returns how many there were.
func (c *cut) sever() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.all) / 2
	for _, conn := range c.all {
		_ = conn.Close()
	}
	c.all = nil
	return n
}

// TestStrangersOnTheMetricsPortEndNoTerm: they leave the leader the descriptors that it needs to
// dial anew.
func TestStrangersOnTheMetricsPortEndNoTerm(t *testing.T) {
	b := trial.Bed(t, testbed.Config{Zones: []string{"za"}, Network: testbed.Links, WithoutControllers: true})
	ctx := patience(t, 4*time.Minute)
	way := newCut(t, strings.TrimPrefix(b.Cluster.RESTConfig("za").Host, "https://"))
	s := start(t, b, "za", "lock", "a", "--server", "https://"+way.Addr().String(), "--metrics-address", "127.0.0.1:0")
	measured, err := s.Await(ctx, "measured", time.Time{})
	must(t, err)
	_, err = s.Await(ctx, "leading", time.Time{})
	must(t, err)
	must(t, unix.Prlimit(s.PID(), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 200, Max: 200}, nil))

	answered := 0
	for range 400 {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", measured.Address)
		must(t, err)
		defer c.Close()
		_, _ = io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n") // it may have no descriptor for this one
		_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); err == nil {
			answered++
		}
	}
	broken, at := way.sever(), time.Now()
	t.Logf("%d of 400 strangers were answered; %d connections to the API server broke", answered, broken)
	observer, err := trial.Observe(ctx, b.Cluster.RESTConfig("za"), "lock")
	must(t, err)
	time.Sleep(lease)
	for _, e := range s.Events() {
		if e.Time.After(at) && e.Event != "error" { // its watches broke
			t.Errorf("it said %+v", e)
		}
	}
	if last := observer.Last(); last.Seen.Before(at.Add(lease - 8*time.Second)) {
		t.Errorf("the last renewal was %v after the connections broke", last.Seen.Sub(at))
	}
	if broken == 0 {
		t.Error("no connection broke")
	}
}
