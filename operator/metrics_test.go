// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"maps"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"

	"github.com/zonelect/zonelect/locks"
)

// counts is a provider of counters that all count into it, by attributes.
type counts struct {
	metricnoop.MeterProvider
	by map[string]int64
}

func (c counts) Meter(string, ...metric.MeterOption) metric.Meter { return countingMeter{by: c.by} }

type countingMeter struct {
	metricnoop.Meter
	by map[string]int64
}

func (m countingMeter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return countingCounter{name: name, by: m.by}, nil
}

type countingCounter struct {
	metricnoop.Int64Counter
	name string
	by   map[string]int64
}

func (c countingCounter) Add(_ context.Context, n int64, o ...metric.AddOption) {
	set := metric.NewAddConfig(o).Attributes()
	c.by[c.name+" "+set.Encoded(attribute.DefaultEncoder())] += n
}

func TestTheWatchOfAllLeasesCountsItsRestartsWithoutALock(t *testing.T) {
	got := counts{by: map[string]int64{}}
	restarted, err := countRestarts(got, locks.Description{Kind: "Lease", Namespace: "ns"})
	if err != nil {
		t.Fatal(err)
	}
	restarted(false, nil)
	restarted(false, nil)
	restarted(true, nil)
	restarted(false, errors.New("broken"))
	const all = "election.watch.restarts election.lock.kind=Lease,election.result="
	want := map[string]int64{all + "ok,k8s.namespace.name=ns": 2, all + "replaced,k8s.namespace.name=ns": 1, all + "error,k8s.namespace.name=ns": 1}
	if !maps.Equal(got.by, want) {
		t.Errorf("counted are %v, want %v", got.by, want)
	}
	if none, err := countRestarts(nil, locks.Description{}); none != nil || err != nil {
		t.Errorf("without a provider there is a counter (%v)", err)
	}
}
