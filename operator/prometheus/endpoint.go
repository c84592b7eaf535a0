// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/metric"
)

// Endpoint is a provider for Options.MeterProvider whose metrics are at /metrics of its
// address. Make one with [Serve], and close it after the elections that use it.
type Endpoint struct {
	metric.MeterProvider
	address  net.Addr
	mux      *http.ServeMux
	server   *http.Server
	shutdown func(context.Context) error
	serving  sync.WaitGroup
	failed   error // why it stopped serving before Close; read after serving is over
}

// Serve listens at an address such as ":8080", and answers requests for /metrics there, to
// anybody and without encryption, until Close. A connection that does nothing, or takes too long, is
// closed. The metrics of the Go runtime and of the process are there too. Clients that ask for
// OpenMetrics get exemplars.
func Serve(ctx context.Context, address string) (*Endpoint, error) {
	registry := prometheus.NewRegistry()
	process := collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})
	registry.MustRegister(collectors.NewGoCollector(), process) // an empty registry takes both
	provider, err := NewProvider(registry)
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for Prometheus: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	server := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 90 * time.Second}
	e := &Endpoint{MeterProvider: provider, address: listener.Addr(), mux: mux, server: server, shutdown: provider.Shutdown}
	e.serving.Go(func() {
		if err := e.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			e.failed = fmt.Errorf("answering Prometheus: %w", err)
		}
	})
	return e, nil
}

// Address returns where the endpoint listens.
func (e *Endpoint) Address() net.Addr { return e.address }

// Handle has h answer requests for a pattern of http.ServeMux too, such as "GET /healthz" for
// Election.LivenessHandler. It panics if the endpoint answers that pattern already.
func (e *Endpoint) Handle(pattern string, h http.Handler) { e.mux.Handle(pattern, h) }

// Close ends the endpoint and its connections, and returns what went wrong since Serve.
func (e *Endpoint) Close() error {
	err := e.server.Close()
	e.serving.Wait()
	return errors.Join(e.failed, err, e.shutdown(context.Background()))
}
