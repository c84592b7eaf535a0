// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// answers answers with a status and the server's name.
func answers(status int, name string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, name)
	}
}

// virtual is a Transport whose one address leads to each server in turn, as that of a Service
// may. It counts the dials.
func virtual(t *testing.T, o Options, servers ...testServer) (url string, tr *Transport, dials *atomic.Int64) {
	t.Helper()
	cfg := servers[0].config()
	dials = new(atomic.Int64)
	cfg.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		to := servers[int(dials.Add(1)-1)%len(servers)]
		return new(net.Dialer).DialContext(ctx, network, to.listener.Addr().String())
	}
	return servers[0].URL, mustNew(t, cfg, o), dials
}

// TestAServerThatRefusesIsLeft: the next request after a refusal dials, and so may reach another
// server. What an answer says about the object is no refusal.
func TestAServerThatRefusesIsLeft(t *testing.T) {
	for status, want := range map[int]string{
		http.StatusTooManyRequests:     "well",
		http.StatusInternalServerError: "well",
		http.StatusServiceUnavailable:  "well",
		http.StatusGatewayTimeout:      "well",
		http.StatusConflict:            "unwell",
		http.StatusNotFound:            "unwell",
		http.StatusForbidden:           "unwell",
		http.StatusUnprocessableEntity: "unwell",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPut} {
			t.Run(fmt.Sprint(method, status), func(t *testing.T) {
				url, tr, _ := virtual(t, calm(), serve(t, true, 0, answers(status, "unwell")), serve(t, true, 0, named("well")))
				for _, want := range []string{"unwell", want, want} {
					if got, err := send(t.Context(), tr, method, url); err != nil || got != want {
						t.Errorf("%s answered (%v), want %s", got, err, want)
					}
				}
			})
		}
	}
}

// TestAServerThatGoesOnRefusingPaysForFewHandshakes: it may shed load.
func TestAServerThatGoesOnRefusingPaysForFewHandshakes(t *testing.T) {
	url, tr, dials := virtual(t, calm(), serve(t, true, 0, answers(http.StatusTooManyRequests, "")))
	for range 100 {
		mustGet(t, t.Context(), tr, url)
	}
	if n := dials.Load(); n < 2 || n > 5 { // net/http gives up a connection that is not written to for 50 ms
		t.Errorf("%d dials", n)
	}
}

// TestAServerThatRefusesAgainAfterAPatienceIsLeftAgain, and not before.
func TestAServerThatRefusesAgainAfterAPatienceIsLeftAgain(t *testing.T) {
	url, tr, _ := virtual(t, calm(), serve(t, true, 0, answers(http.StatusServiceUnavailable, "")))
	l := tr.pool.main
	for want, ago := range map[bool]time.Duration{true: l.options.Patience + time.Second, false: l.options.Patience - time.Minute} {
		l.doubted, l.left = time.Time{}, time.Now().Add(-ago)
		mustGet(t, t.Context(), tr, url)
		if doubts := !l.doubted.IsZero(); doubts != want {
			t.Errorf("%v after the last: it doubts the connection: %v", ago, doubts)
		}
	}
}

// TestARedirectIsNotFollowed: it would take the token to any host, without encryption if the
// server, or a proxy on the way, likes.
func TestARedirectIsNotFollowed(t *testing.T) {
	astray := make(chan string, 10)
	plain := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { astray <- r.Header.Get("Authorization") }))
	defer plain.Close()
	s := serve(t, true, 0, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, plain.URL, http.StatusTemporaryRedirect)
	})
	cfg := s.config()
	cfg.BearerToken = "secret"
	for _, method := range []string{http.MethodGet, http.MethodPut} {
		if _, err := send(t.Context(), mustNew(t, cfg, calm()), method, s.URL); err == nil || len(astray) > 0 {
			t.Errorf("%s: %v, and %d requests went astray", method, err, len(astray))
		}
	}
}
