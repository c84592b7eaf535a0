// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"

	"github.com/zonelect/zonelect/internal/metrics"
)

// instrument is a row of the table in metrics.md, as far as the code says it.
type instrument struct{ name, kind, unit, says string }

// catalog is a provider that notes the instruments that are made.
type catalog struct {
	metricnoop.MeterProvider
	all []instrument
}

func (c *catalog) Meter(string, ...metric.MeterOption) metric.Meter { return meter{catalog: c} }

// meter has the kinds of instruments that are in use. The test fails for another kind, which
// it does not note.
type meter struct {
	metricnoop.Meter
	catalog *catalog
}

// described is the configuration of any instrument.
type described interface {
	Unit() string
	Description() string
}

func (m meter) note(name, kind string, c described) {
	m.catalog.all = append(m.catalog.all, instrument{name, kind, c.Unit(), c.Description()})
}

func (m meter) Int64Gauge(name string, o ...metric.Int64GaugeOption) (metric.Int64Gauge, error) {
	m.note(name, "gauge", metric.NewInt64GaugeConfig(o...))
	return m.Meter.Int64Gauge(name, o...)
}

func (m meter) Int64ObservableGauge(name string, o ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	m.note(name, "observable gauge", metric.NewInt64ObservableGaugeConfig(o...))
	return m.Meter.Int64ObservableGauge(name, o...)
}

func (m meter) Float64ObservableGauge(name string, o ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	m.note(name, "observable gauge", metric.NewFloat64ObservableGaugeConfig(o...))
	return m.Meter.Float64ObservableGauge(name, o...)
}

func (m meter) Float64ObservableCounter(name string, o ...metric.Float64ObservableCounterOption) (metric.Float64ObservableCounter, error) {
	m.note(name, "observable counter", metric.NewFloat64ObservableCounterConfig(o...))
	return m.Meter.Float64ObservableCounter(name, o...)
}

func (m meter) Float64Histogram(name string, o ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	m.note(name, "histogram", metric.NewFloat64HistogramConfig(o...))
	return m.Meter.Float64Histogram(name, o...)
}

func (m meter) Int64Counter(name string, o ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	m.note(name, "counter", metric.NewInt64CounterConfig(o...))
	return m.Meter.Int64Counter(name, o...)
}

var metricRow = regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| ([a-z ]+) \\| (?:`([^`]*)` )?\\| [^|]* \\| ([^|]*) \\| `[a-z_]+` \\|$")

func TestTheReferenceOfMetricsIsWhatTheCodeHas(t *testing.T) {
	var code catalog
	if _, err := metrics.New(&code); err != nil {
		t.Fatal(err)
	}
	if n := reflect.TypeFor[metrics.Instruments]().NumField(); n != len(code.all) {
		t.Errorf("there are %d instruments, and %d of the kinds that this test knows", n, len(code.all))
	}
	text, err := os.ReadFile("metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var reference []instrument
	for _, r := range metricRow.FindAllStringSubmatch(string(text), -1) {
		reference = append(reference, instrument{r[1], r[2], r[3], r[4]})
	}
	for _, i := range code.all {
		if !slices.Contains(reference, i) {
			t.Errorf("metrics.md has no row that says %+v", i)
		}
	}
	for _, i := range reference {
		if !slices.Contains(code.all, i) {
			t.Errorf("the code has no instrument like that of metrics.md: %+v", i)
		}
	}
	if len(reference) != len(code.all) {
		t.Errorf("metrics.md has %d rows, the code %d instruments", len(reference), len(code.all))
	}
}

// TestAllInstrumentsAreInOnePackage, where the reference is compared with them.
func TestAllInstrumentsAreInOnePackage(t *testing.T) {
	made := regexp.MustCompile(`\.(Int64|Float64)(Observable)?(Counter|UpDownCounter|Gauge|Histogram)\(`)
	for _, dir := range []string{"election", "internal", "locks", "migrate", "operator", "zone", "cmd"} {
		err := filepath.WalkDir(filepath.Join("..", dir), func(name string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || strings.Contains(filepath.ToSlash(name), "internal/metrics/") {
				return err
			}
			text, err := os.ReadFile(name)
			if found := made.Find(text); found != nil {
				t.Errorf("%s makes an instrument by %s)", name, found)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
