// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/x509"
	"errors"
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
	url, tr, _ := virtual(t, patient(), serve(t, true, 1000, named("silent")), serve(t, true, 0, named("well")))
	if got := mustGet(t, t.Context(), tr, url); got != "well" {
		t.Errorf("%s answered", got)
	}
}

// TestEachServerProvesItsOwnName: the test certificate is for example.com and loopback addresses.
func TestEachServerProvesItsOwnName(t *testing.T) {
	s := serve(t, true, 0, named("well"))
	cfg := s.config()
	cfg.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, s.listener.Addr().String())
	}
	for _, row := range []struct {
		host, name string
		proves     bool
	}{
		{"https://example.com", "", true},
		{"https://wrong.example", "", false},
		{"https://wrong.example", "example.com", true},
	} {
		cfg.Host, cfg.ServerName = row.host, row.name
		_, err := get(t.Context(), mustNew(t, cfg, calm()), row.host)
		var wrong x509.HostnameError
		if row.proves && err != nil || !row.proves && !errors.As(err, &wrong) {
			t.Errorf("%s with the ServerName %q: %v", row.host, row.name, err)
		}
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
