// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
)

// named answers with its own name.
func named(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, name) }
}

func TestASilentServerIsOvertakenByTheNext(t *testing.T) {
	near, far := serve(t, true, 1000, named("near")), serve(t, true, 0, named("far"))
	o := patient()
	o.Servers = []string{near.URL, far.URL}
	tr := mustNew(t, near.config(), o)
	if got := mustGet(t, t.Context(), tr, near.URL); got != "far" {
		t.Errorf("%s answered", got)
	}
}

// TestEachServerProvesItsOwnName dials example.com, the only name (except loopback addresses)
// for which the test certificate is valid.
func TestEachServerProvesItsOwnName(t *testing.T) {
	near, far := serve(t, true, 0, named("near")), serve(t, true, 0, named("far"))
	cfg := near.config()
	cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		to := map[string]testServer{"wrong.example:443": near, "example.com:443": far}[addr]
		return new(net.Dialer).DialContext(ctx, network, to.listener.Addr().String())
	}
	o := calm()
	o.Servers = []string{"https://wrong.example", "https://example.com"}
	tr := mustNew(t, cfg, o)
	if got := mustGet(t, t.Context(), tr, "https://wrong.example/"); got != "far" {
		t.Errorf("%s answered", got)
	}
	cfg.ServerName = "example.com"
	tr = mustNew(t, cfg, o)
	if got := mustGet(t, t.Context(), tr, "https://wrong.example/"); got != "near" {
		t.Errorf("with a ServerName for all, %s answered", got)
	}
}

// proxy forwards every connection and notes where to.
func proxy(t *testing.T) (*httptest.Server, func() []string) {
	var mu sync.Mutex
	var seen []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.Method+" "+r.Host)
		mu.Unlock()
		back, err := net.Dial("tcp", r.Host)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer back.Close()
		client, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer client.Close()
		io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { io.Copy(back, client); back.Close() }()
		io.Copy(client, back)
	}))
	t.Cleanup(s.Close)
	return s, func() []string { mu.Lock(); defer mu.Unlock(); return seen }
}

func TestAProxyIsUsed(t *testing.T) {
	s := serve(t, true, 0, named("behind"))
	p, seen := proxy(t)
	via, err := url.Parse(p.URL)
	must(t, err)
	cfg := s.config()
	cfg.Proxy = http.ProxyURL(via)
	tr := mustNew(t, cfg, calm())
	if got := mustGet(t, t.Context(), tr, s.URL); got != "behind" {
		t.Errorf("%s answered", got)
	}
	if got, want := seen(), "CONNECT "+s.listener.Addr().String(); len(got) != 1 || got[0] != want {
		t.Errorf("the proxy saw %v, want %s", got, want)
	}
	tr.CloseConnections()
}
