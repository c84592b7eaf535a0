// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package peerfaults_test

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"k8s.io/client-go/tools/leaderelection"
)

func init() { leaderelection.SetProvider(&gauges) } // the first provider counts, for all electors

var gauges clientGoGauges

// clientGoGauges is leader_election_master_status, by the name of the elector.
type clientGoGauges struct{ values sync.Map }

func (g *clientGoGauges) NewLeaderMetric() leaderelection.LeaderMetric { return g }
func (g *clientGoGauges) On(name string)                               { g.values.Store(name, true) }
func (g *clientGoGauges) Off(name string)                              { g.values.Store(name, false) }
func (g *clientGoGauges) SlowpathExercised(string)                     {}

// meters is where zonelect's elector records its metrics.
func (c *candidate) meters() metric.MeterProvider {
	c.reader = sdkmetric.NewManualReader()
	return sdkmetric.NewMeterProvider(sdkmetric.WithReader(c.reader))
}

// gaugeSaysLeader reports whether the metrics of c's elector say that it leads.
func (c *candidate) gaugeSaysLeader() bool {
	if c.reader == nil {
		on, _ := gauges.values.Load(c.fullName())
		return on == true
	}
	var all metricdata.ResourceMetrics
	if err := c.reader.Collect(context.Background(), &all); err != nil {
		c.stage.t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if gauge, ok := m.Data.(metricdata.Gauge[int64]); ok && m.Name == "election.leader" {
				return gauge.DataPoints[0].Value == 1
			}
		}
	}
	return false
}

// fullName distinguishes c from the candidates of other tests.
func (c *candidate) fullName() string { return c.stage.t.Name() + "/" + c.name }
