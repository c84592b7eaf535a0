// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/test/kit/slow"
)

// server is an API server in memory, which speaks TLS with HTTP/1.1 and HTTP/2 on
// connections in memory.
type server struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
	mu    sync.Mutex
	open  []net.Conn
}

func (s *server) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.done:
		return nil, net.ErrClosed
	}
}

func (s *server) Close() error {
	s.once.Do(func() { close(s.done) })
	return nil
}

func (*server) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }

func (s *server) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case s.conns <- far:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open = append(s.open, near, far)
		return near, nil
	case <-s.done:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *server) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.open {
		_ = c.Close()
	}
}

// certificate returns the server's TLS configuration, and the CA that its
// clients trust.
func certificate(t *testing.T) (*tls.Config, []byte) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return &tls.Config{Certificates: s.TLS.Certificates}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// in measures a kind of elector for an hour of virtual time.
func in(t *testing.T, kind string, w slow.Answers, k int) (r row) {
	t.Helper()
	config, ca := certificate(t)
	synctest.Test(t, func(t *testing.T) {
		l := &server{conns: make(chan net.Conn), done: make(chan struct{})}
		s := &http.Server{Handler: apitest.NewServer(), TLSConfig: config, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Hour}
		go func() { _ = s.ServeTLS(l, "", "") }()
		cfg := &rest.Config{Host: "https://127.0.0.1:443", Dial: l.dial, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: ca}, ContentConfig: rest.ContentConfig{ContentType: "application/json"},
			Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }}
		var err error
		if r, err = trial(kind, kinds[kind], cfg, w, timings[k], start, time.Hour); err != nil {
			t.Error(err)
		}
		l.closeAll()
		_ = s.Close()
		time.Sleep(time.Minute) // until what client-go leaves behind has ended
	})
	return r
}

// start is how long the candidates have for their first term. Where each answer takes 8 s
// they need 72 to 82 s: who creates the Lease waits until a watch has told that nobody had
// it before.
const start = 2 * time.Minute

// TestLeadershipIsKeptBehindASlowServer, under all delays under which client-go
// keeps it (docs/timing.md).
func TestLeadershipIsKeptBehindASlowServer(t *testing.T) {
	klog.SetLogger(logr.Discard())
	var rows []row
	for k := range timings {
		for _, w := range curve() {
			ours, theirs := in(t, "zonelect", w, k), in(t, "client-go", w, k)
			rows = append(rows, ours, theirs)
			if ours.Share < theirs.Share-0.005 {
				t.Errorf("%s, answers late by %s: %.1f %% of the time with a leader, client-go's have one %.1f %%", ours.Timing, w.Name, 100*ours.Share, 100*theirs.Share)
			}
			if w.Least == w.Most && w.Lost == 0 && (ours.Losses > 0 || ours.Connections > 1) {
				t.Errorf("%s, answers late by %s: %.0f losses an hour, %.1f connections a minute", ours.Timing, w.Name, ours.Losses, ours.Connections)
			}
			if ours.Overlap > 0 {
				t.Errorf("%s, answers late by %s: two lead for %v", ours.Timing, w.Name, ours.Overlap)
			}
		}
	}
	if testing.Verbose() {
		print(rows)
	}
}
