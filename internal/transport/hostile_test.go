// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// clientsOf are the ways in which requests go to an API server: the election's own connections,
// and client-go's with bounds, which the plugin uses, and what posts Events.
func clientsOf(t *testing.T, cfg *rest.Config) map[string]*http.Client {
	t.Helper()
	bounded := rest.CopyConfig(cfg)
	bounded.Wrap(Bounded)
	client, err := rest.HTTPClientFor(bounded)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return map[string]*http.Client{"the election's": {Transport: mustNew(t, cfg, calm())}, "client-go's": client}
}

// elsewhereServer is a server without encryption that nobody should ask anything.
func elsewhereServer(t *testing.T) (url string, asked func() int) {
	t.Helper()
	got := make(chan string, 1000)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("Authorization")
	}))
	t.Cleanup(s.Close)
	return s.URL, func() int { return len(got) }
}

// TestARedirectIsNotFollowed: it would take the token to any host, without encryption if the
// server, or a proxy on the way, likes.
func TestARedirectIsNotFollowed(t *testing.T) {
	const token = "s3cr3t.token"
	plain, asked := elsewhereServer(t)
	for _, code := range []int{300, 301, 302, 303, 307, 308} {
		s := serve(t, true, 0, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, plain+"/login?from="+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), code)
		})
		cfg := s.config()
		cfg.BearerToken = token
		for name, client := range clientsOf(t, cfg) {
			for _, ask := range []string{"GET ", "GET ?watch=true", "POST ", "PUT ", "PATCH ", "DELETE "} {
				method, query, _ := strings.Cut(ask, " ")
				req, err := http.NewRequestWithContext(t.Context(), method, s.URL+"/apis"+query, strings.NewReader("{}"))
				if err != nil {
					t.Fatal(err)
				}
				resp, err := client.Do(req)
				if err == nil {
					_ = resp.Body.Close()
					t.Errorf("%d, %s %s: it is an answer", code, name, ask)
					continue
				}
				if text := err.Error(); !strings.Contains(text, strings.TrimPrefix(plain, "http://")) || !strings.Contains(text, fmt.Sprint(code)) || strings.Contains(text, token) {
					t.Errorf("%d, %s %s: %s", code, name, ask, text)
				}
			}
		}
	}
	if n := asked(); n > 0 {
		t.Errorf("the other server was asked %d times", n)
	}
}

// TestARedirectFailsARequestOfClientGo, whose clients are made of these.
func TestARedirectFailsARequestOfClientGo(t *testing.T) {
	plain, asked := elsewhereServer(t)
	s := serve(t, true, 0, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, plain, http.StatusFound) })
	for name, client := range clientsOf(t, s.config()) {
		set, err := kubernetes.NewForConfigAndClient(s.config(), client)
		if err != nil {
			t.Fatal(err)
		}
		if err := set.CoordinationV1().RESTClient().Get().Resource("leases").Do(t.Context()).Error(); err == nil || !strings.Contains(err.Error(), "redirects to") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := asked(); n > 0 {
		t.Errorf("the other server was asked %d times", n)
	}
}

// TestOnlyAnAnswerIsAnAnswer: what is neither one nor a refusal has no bound of its own.
func TestOnlyAnAnswerIsAnAnswer(t *testing.T) {
	for _, code := range []int{101, 300, 304, 399} {
		resp, err := Bounded(says{code, endless{}}).RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://api/apis", nil))
		if err == nil {
			_ = resp.Body.Close()
			t.Errorf("%d is an answer", code)
		} else if !strings.Contains(err.Error(), fmt.Sprint(code)) {
			t.Errorf("%d: %v", code, err)
		}
	}
}

// TestARefusalHasNobodyWaitLong: client-go repeats a request as late as the server says.
func TestARefusalHasNobodyWaitLong(t *testing.T) {
	for said, want := range map[string]string{"1": "1", "10": "10", "11": "10", "86400": "10", "9223372036": "10", "Thu, 01 Jan 2099 00:00:00 GMT": "Thu, 01 Jan 2099 00:00:00 GMT", "": ""} {
		s := serve(t, true, 0, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", said)
			w.WriteHeader(http.StatusTooManyRequests)
		})
		for name, client := range clientsOf(t, s.config()) {
			resp, err := client.Get(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if got := resp.Header.Get("Retry-After"); got != want {
				t.Errorf("%s: %q is passed on as %q, want %q", name, said, got, want)
			}
		}
	}
}

// TestAnAnswerIsBoundedAsItIsRead: compressed, chunked without an end, or said to be huge, it
// takes no more than its bound, and what it says of its length takes nothing.
func TestAnAnswerIsBoundedAsItIsRead(t *testing.T) {
	var bomb bytes.Buffer
	packed := gzip.NewWriter(&bomb)
	_, _ = io.Copy(packed, io.LimitReader(endless{}, mostAnswer+1<<20)) // a buffer takes everything
	_ = packed.Close()
	for name, answer := range map[string]func(http.ResponseWriter){
		"compressed": func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb.Bytes())
		},
		"without an end": func(w http.ResponseWriter) { _, _ = io.Copy(w, endless{}) },
		"said to be huge": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "9223372036854775807")
			_, _ = io.Copy(w, endless{})
		},
	} {
		s := serve(t, true, 0, func(w http.ResponseWriter, _ *http.Request) { answer(w) })
		for from, client := range clientsOf(t, s.config()) {
			resp, err := client.Get(s.URL)
			if err == nil {
				_ = resp.Body.Close()
				t.Errorf("%s, by %s connections: it is an answer", name, from)
			} else if !strings.Contains(err.Error(), "longer than") {
				t.Errorf("%s, by %s connections: %v", name, from, err)
			}
		}
	}
	if bomb.Len() > 1<<20 {
		t.Errorf("the bomb has %d bytes", bomb.Len())
	}
}

// TestARequestEndsWithItsContextThoughItsAnswerDoesNot: an answer that trickles has no other end.
func TestARequestEndsWithItsContextThoughItsAnswerDoesNot(t *testing.T) {
	for _, code := range []int{http.StatusOK, http.StatusServiceUnavailable} {
		ctx, cancel := context.WithCancel(t.Context())
		s := serve(t, true, 0, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(code)
			_, _ = io.WriteString(w, `{"kind":`)
			w.(http.Flusher).Flush()
			cancel()
			<-r.Context().Done()
			panic(http.ErrAbortHandler) // else the answer ends well, and the client may still see that
		})
		client, err := rest.RESTClientForConfigAndClient(&rest.Config{
			Host: s.URL, ContentConfig: rest.ContentConfig{GroupVersion: &coordinationv1.SchemeGroupVersion, NegotiatedSerializer: scheme.Codecs.WithoutConversion()},
		}, &http.Client{Transport: mustNew(t, s.config(), calm())})
		if err != nil {
			t.Fatal(err)
		}
		if err := client.Get().Resource("leases").MaxRetries(0).Do(ctx).Error(); err == nil {
			t.Errorf("%d: there is no error", code)
		}
	}
}
