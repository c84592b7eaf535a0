// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Wire returns a client of h for one group and version that uses no sockets, so
// that it can be used in a bubble of testing/synctest.
func Wire(t *testing.T, h http.Handler, gv schema.GroupVersion) *rest.RESTClient {
	t.Helper()
	cfg := &rest.Config{Host: "http://apiserver.test", APIPath: "/apis"}
	if gv.Group == "" {
		cfg.APIPath = "/api"
	}
	cfg.GroupVersion = &gv
	cfg.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	c, err := rest.RESTClientForConfigAndClient(cfg, &http.Client{Transport: Transport(h)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Transport hands requests to h without sockets, so that it can be used in a
// bubble of testing/synctest.
func Transport(h http.Handler) http.RoundTripper { return wire{h} }

// wire hands requests to a handler. An answer may be read while it is written.
type wire struct{ h http.Handler }

func (t wire) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	pr, pw := io.Pipe()
	a := &answer{began: make(chan struct{}), header: http.Header{}, body: pw}
	go func() {
		t.h.ServeHTTP(a, r.Clone(ctx))
		a.WriteHeader(http.StatusOK)
		_ = pw.Close() // it never fails
	}()
	select {
	case <-a.began:
	case <-ctx.Done():
		cancel()
		_ = pr.Close() // nobody will read the answer
		return nil, context.Cause(r.Context())
	}
	context.AfterFunc(ctx, func() { pw.CloseWithError(context.Cause(ctx)) })
	return &http.Response{
		StatusCode: a.code, Status: http.StatusText(a.code), Header: a.header, Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1,
		Body: body{pr, cancel},
	}, nil
}

// body ends the request when it is closed.
type body struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (b body) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

// answer is what a handler writes.
type answer struct {
	once   sync.Once
	began  chan struct{}
	code   int
	header http.Header
	body   *io.PipeWriter
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(code int) {
	a.once.Do(func() {
		a.code, a.header = code, a.header.Clone()
		close(a.began)
	})
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

func (a *answer) Flush() { a.WriteHeader(http.StatusOK) }
