// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"errors"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/otlptranslator"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
)

// NewProvider returns a provider for Options.MeterProvider, whose metrics are in registry
// from then on. It returns the same one whenever it is called for that registry, because a
// scrape fails if two collectors have the same metrics. Its Shutdown takes them out of use for
// good.
//
// The names are those of docs/metrics.md, and no metric has labels of a scope or a target.
// The SDK's limit on the number of series is off, because the library bounds them by the
// number of locks.
func NewProvider(registry prometheus.Registerer) (*sdkmetric.MeterProvider, error) {
	m := mark{provider: sync.OnceValues(func() (*sdkmetric.MeterProvider, error) { return newProvider(registry) })}
	var known prometheus.AlreadyRegisteredError
	err := registry.Register(m)
	if errors.As(err, &known) {
		if other, ok := known.ExistingCollector.(mark); ok {
			m, err = other, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("exporting metrics to Prometheus: %w", err)
	}
	return m.provider()
}

// mark is in a registry that has a provider, and shows nothing there.
type mark struct {
	provider func() (*sdkmetric.MeterProvider, error)
}

// Describe sends what no other collector has.
func (mark) Describe(all chan<- *prometheus.Desc) {
	all <- prometheus.NewDesc("election_provider", "Not shown.", nil, nil)
}

// Collect sends nothing.
func (mark) Collect(chan<- prometheus.Metric) {}

func newProvider(registry prometheus.Registerer) (*sdkmetric.MeterProvider, error) {
	reader, err := exporter.New(
		exporter.WithRegisterer(registry),
		exporter.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes),
		exporter.WithoutScopeInfo(),
		exporter.WithoutTargetInfo(),
	)
	if err != nil {
		return nil, fmt.Errorf("exporting metrics to Prometheus: %w", err)
	}
	nothing := resource.Empty() // Prometheus would not show it
	return sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithResource(nothing), sdkmetric.WithCardinalityLimit(0)), nil
}
