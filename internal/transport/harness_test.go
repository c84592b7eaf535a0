// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// patient has timeouts that no test reaches: a test that passes with it does not depend on
// time.
func patient() Options {
	return Options{AttemptTimeout: 10 * time.Minute, DialInterval: time.Millisecond}
}

// calm dials once only, unless it has to.
func calm() Options {
	return Options{AttemptTimeout: 10 * time.Minute, DialInterval: time.Minute}
}

// listener swallows its first connections: it accepts them and stays silent.
type listener struct {
	net.Listener
	swallow int

	mu        sync.Mutex
	accepted  int
	swallowed []net.Conn
	ended     chan error // how each served connection ended
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		l.accepted++
		hold := l.accepted <= l.swallow
		if hold {
			l.swallowed = append(l.swallowed, c)
		}
		l.mu.Unlock()
		if !hold {
			return &observed{Conn: c, ended: l.ended}, nil
		}
	}
}

func (l *listener) held() []net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]net.Conn(nil), l.swallowed...)
}

// observed reports how it ended: the first error of a read, or net.ErrClosed
// where the server closed it first, as it does on a TLS peer's goodbye.
type observed struct {
	net.Conn
	once  sync.Once
	ended chan error
}

func (o *observed) Read(b []byte) (int, error) {
	n, err := o.Conn.Read(b)
	var ne net.Error
	if timeout := errors.As(err, &ne) && ne.Timeout(); err != nil && !timeout {
		o.once.Do(func() { o.ended <- err })
	}
	return n, err
}

type testServer struct {
	*httptest.Server
	*listener
}

// serve starts a server that offers HTTP/2, whose first connections are
// swallowed.
func serve(t *testing.T, secure bool, swallow int, h http.HandlerFunc) testServer {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	l := &listener{Listener: s.Listener, swallow: swallow, ended: make(chan error, 1000)}
	s.Listener = l
	s.EnableHTTP2 = true
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(func() {
		for _, c := range l.held() {
			c.Close()
		}
		s.CloseClientConnections()
		s.Close()
	})
	return testServer{s, l}
}

func (s testServer) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// config trusts the server, if it is secure.
func (s testServer) config() *rest.Config {
	cfg := &rest.Config{Host: s.URL, Proxy: noProxy}
	if s.TLS != nil {
		cfg.CAData = s.ca()
	}
	return cfg
}

func mustNew(t *testing.T, cfg *rest.Config, o Options) *Transport {
	t.Helper()
	tr, err := New(cfg, o)
	must(t, err)
	t.Cleanup(tr.CloseConnections)
	return tr
}

// get returns the body of an answer.
func get(ctx context.Context, tr *Transport, url string) (string, error) {
	return send(ctx, tr, http.MethodGet, url)
}

func send(ctx context.Context, tr *Transport, method, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func mustGet(t *testing.T, ctx context.Context, tr *Transport, url string) string {
	t.Helper()
	body, err := get(ctx, tr, url)
	must(t, err)
	return body
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// peer answers with the client's address: one per connection.
func peer(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RemoteAddr) }

func (o *observed) Close() error {
	o.once.Do(func() { o.ended <- net.ErrClosed })
	return o.Conn.Close()
}

// wantReset fails if c ended in good order after something was sent on it: then the kernel
// would have delivered the data still on its way. A dial that was given up before it had a
// connection to set the option on has sent nothing.
func wantReset(t *testing.T, c net.Conn) {
	t.Helper()
	if n, err := io.Copy(io.Discard, c); n > 0 && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection ended with %v after %d bytes, want a reset", err, n)
	}
}
