// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command tracing sends a trace of each takeover that it wins, and of its work,
// to an OpenTelemetry collector: OTEL_EXPORTER_OTLP_ENDPOINT says where it is.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/operator"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return err
	}
	traces := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter, sdktrace.WithBatchTimeout(time.Second)),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "tracing"))),
	)
	err = operator.Run(ctx, "tracing", func(ctx context.Context, term election.Term) error {
		return work(ctx, term, traces.Tracer("example"))
	}, operator.Options{TracerProvider: traces})
	flushing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, traces.Shutdown(flushing))
}

// work makes a span for each thing that it does. The token says in which term.
func work(ctx context.Context, term election.Term, tracer trace.Tracer) error {
	fmt.Println("leading with token", term.Token)
	for {
		_, span := tracer.Start(ctx, "reconcile", trace.WithAttributes(attribute.Int64("election.token", int64(term.Token))))
		span.End() // the work goes before this line
		select {
		case <-time.After(5 * time.Second):
		case <-ctx.Done():
			fmt.Println("stopped:", context.Cause(ctx))
			return nil
		}
	}
}
