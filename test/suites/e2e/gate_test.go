// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core && !long

package e2e_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// gate is a proxy before an apiserver. It can hold single requests back, as a
// slow network does, or cut everybody off.
type gate struct {
	url  string
	over <-chan struct{} // closed at the end of the test
	next http.RoundTripper

	mu   sync.Mutex
	open chan struct{} // closed while the gate is open
	held []*held
}

// held is a request that the gate holds back. The client has sent it, and the
// apiserver has not received it.
type held struct {
	method, path string
	arrived      chan struct{} // closed when it is at the gate
	released     chan struct{} // close it to let the request go on
	answered     chan struct{} // closed with the apiserver's answer
	status       int           // the status of that answer; read it after answered
}

// newGate returns a gate that is cut until it gets a destination.
func newGate(t *testing.T) *gate {
	g := &gate{over: t.Context().Done(), open: make(chan struct{})}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Transport: g,
		// The destination is not known yet: RoundTrip sets it.
		Rewrite: func(*httputil.ProxyRequest) {},
		// Connections break when the bed is taken down: that is expected.
		ErrorLog: log.New(io.Discard, "", 0),
	})
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	g.url = server.URL
	return g
}

// lead opens the gate to the apiserver of cfg. All requests get the rights of
// cfg.
func (g *gate) lead(t *testing.T, cfg *rest.Config) {
	t.Helper()
	transport, err := rest.TransportFor(cfg)
	must(t, err)
	target, err := url.Parse(cfg.Host)
	must(t, err)
	g.next = roundTripper(func(r *http.Request) (*http.Response, error) {
		r.URL.Scheme, r.URL.Host = target.Scheme, target.Host
		r.Host = target.Host
		return transport.RoundTrip(r)
	})
	close(g.open)
}

// cut holds back everything from now on, including watch events, until heal.
func (g *gate) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

// heal ends a cut.
func (g *gate) heal() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.open)
}

// pass waits until the gate is open.
func (g *gate) pass(ctx context.Context) error {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	return g.wait(ctx, open)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// kubeconfig returns a file that leads programs to the gate.
func (g *gate) kubeconfig(t *testing.T) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["gate"] = &clientcmdapi.Cluster{Server: g.url}
	config.Contexts["gate"] = &clientcmdapi.Context{Cluster: "gate"}
	config.CurrentContext = "gate"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, clientcmd.WriteToFile(*config, file))
	return file
}

// hold holds back the next request that has this method and path.
func (g *gate) hold(method, path string) *held {
	h := &held{method: method, path: path,
		arrived: make(chan struct{}), released: make(chan struct{}), answered: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = append(g.held, h)
	return h
}

// take returns the held request that matches r, if there is one.
func (g *gate) take(r *http.Request) *held {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.IndexFunc(g.held, func(h *held) bool { return h.method == r.Method && h.path == r.URL.Path })
	if i < 0 {
		return nil
	}
	h := g.held[i]
	g.held = slices.Delete(g.held, i, i+1)
	return h
}

// RoundTrip implements http.RoundTripper for all requests that come to the
// gate.
func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := g.pass(r.Context()); err != nil {
		return nil, err
	}
	h := g.take(r)
	if h != nil {
		close(h.arrived)
		if err := g.wait(r.Context(), h.released); err != nil {
			return nil, err
		}
	}
	response, err := g.next.RoundTrip(r)
	if h != nil && err == nil {
		h.status = response.StatusCode
		close(h.answered)
	}
	if err == nil {
		response.Body = &stream{response.Body, r.Context(), g}
	}
	return response, err
}

// stream is an answer on its way back through the gate.
type stream struct {
	io.ReadCloser
	ctx  context.Context
	gate *gate
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if cut := s.gate.pass(s.ctx); cut != nil {
		return 0, cut
	}
	return n, err
}

var errOver = errors.New("the test is over")

// wait waits until ch is closed. A server does not report that a client is gone
// whose request it has not read, hence the second way out.
func (g *gate) wait(ctx context.Context, ch <-chan struct{}) error {
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-g.over:
		return errOver
	}
}
