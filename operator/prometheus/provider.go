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
// If the registry has client-go's leader_election_master_status already, as that of
// controller-runtime has, the metric of that name is left out.
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
	options := []sdkmetric.Option{
		sdkmetric.WithReader(reader),
		sdkmetric.WithResource(resource.Empty()), // nothing would show it
		sdkmetric.WithCardinalityLimit(0),
	}
	if hasMasterStatus(registry) {
		options = append(options, sdkmetric.WithView(sdkmetric.NewView(
			sdkmetric.Instrument{Name: masterStatus}, sdkmetric.Stream{Aggregation: sdkmetric.AggregationDrop{}})))
	}
	return sdkmetric.NewMeterProvider(options...), nil
}

// masterStatus is a metric that client-go's electors have too. Kubernetes' components and
// controller-runtime describe it by masterHelp.
const (
	masterStatus = "leader_election_master_status"
	masterHelp   = "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. " +
		"'name' is the string used to identify the lease. Please make sure to group by name."
)

// hasMasterStatus reports whether a registry has that metric. A scrape would fail if two
// collectors had it. A registry remembers the words of what it no longer has, so the probe
// has those that others use.
func hasMasterStatus(registry prometheus.Registerer) bool {
	probe := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: masterStatus, Help: masterHelp}, []string{"name"})
	if err := registry.Register(probe); err != nil {
		return true
	}
	return !registry.Unregister(probe)
}
