// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/zonelect/zonelect/internal/metrics"
	"github.com/zonelect/zonelect/locks"
)

// telemetry emits an elector's metrics and spans to OpenTelemetry. Its methods are safe for concurrent
// use and start no goroutine.
//
// What is true for a time is observed at each collection while Run runs, and is not told
// afterwards. Only that this candidate does not lead is told for good, because the backends
// that metrics are pushed to remember for minutes that it did.
type telemetry struct {
	*metrics.Instruments
	meter  metric.Meter
	tracer trace.Tracer
	timing Timing
	place  []attribute.KeyValue              // the lock without its name
	whole  []attribute.KeyValue              // the lock
	lock   metric.MeasurementOption          // the same
	name   metric.MeasurementOption          // the lock as client-go names it
	group  attribute.KeyValue                // the lock, or what names the candidates of several locks
	phase  func() (now string, all []string) // nil without a migration

	led        atomic.Pointer[trust]          // of the term whose work runs; nil if none does
	candidates atomic.Pointer[map[string]int] // by zone; nil while nothing is known
}

func newTelemetry(c Config) (*telemetry, error) {
	tracers := cmp.Or[trace.TracerProvider](c.TracerProvider, tracenoop.NewTracerProvider())
	meters := cmp.Or[metric.MeterProvider](c.MeterProvider, metricnoop.NewMeterProvider())
	instruments, err := metrics.New(meters)
	if err != nil {
		return nil, err
	}
	d, can := c.Lock.Describe(), c.Lock.Capabilities()
	place := metrics.Place(d)
	whole := slices.Concat(place, []attribute.KeyValue{metrics.KeyLock.String(d.Name)})
	t := &telemetry{
		Instruments: instruments,
		meter:       meters.Meter(metrics.Scope),
		tracer:      tracers.Tracer(metrics.Scope),
		timing:      c.Timing,
		place:       place,
		whole:       whole,
		lock:        set(whole...),
		name:        set(metrics.KeyMasterName.String(d.Name)),
		group:       metrics.KeyLock.String(cmp.Or(can.Group, d.Name)),
		phase:       can.Phases,
	}
	t.tellLeader(context.Background())
	return t, nil
}

func set(all ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(all...))
}

// at returns some attributes together with those of the lock except its name.
func (m *telemetry) at(more ...attribute.KeyValue) metric.MeasurementOption {
	return set(slices.Concat(m.place, more)...)
}

// start has the metrics exported at each collection until end is called. It makes the counter of terms' ends
// exist before it counts: Prometheus takes the first value of a series for where it began, so it would never
// see the first end in a process, which is often the only one.
func (m *telemetry) start(e *Elector, log logr.Logger) (end func()) {
	for _, end := range ends {
		m.countEnd(context.Background(), end.name, 0)
	}
	registration, err := m.meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		m.observe(ctx, o, e.Term())
		return nil
	}, m.TimeLeft, m.Candidates, m.Phase)
	if err != nil {
		log.Error(err, "cannot register some metrics")
	}
	return func() {
		if registration != nil {
			if err := registration.Unregister(); err != nil {
				log.Error(err, "cannot unregister metrics: they may be exported after the end")
			}
		}
		m.leading(context.Background(), nil)
		m.candidates.Store(nil)
	}
}

func (m *telemetry) countEnd(ctx context.Context, end string, n int64) {
	m.TermEnds.Add(ctx, n, m.at(metrics.KeyEnd.String(end)))
}

// observe tells what is true at this very moment. A term may have run out although the loop
// hangs, so it asks the trust itself.
func (m *telemetry) observe(ctx context.Context, o metric.Observer, term Term) {
	m.tellLeader(ctx)
	o.ObserveFloat64(m.TimeLeft, max(0, term.TrustedFor()).Seconds(), m.lock)
	if zones := m.candidates.Load(); zones != nil {
		for zone, n := range *zones {
			o.ObserveInt64(m.Candidates, int64(n), m.ofZone(zone))
		}
	}
	if m.phase == nil {
		return
	}
	phase, all := m.phase()
	for _, p := range all {
		if phase != "" {
			o.ObserveInt64(m.Phase, number(p == phase), m.lock, metric.WithAttributes(metrics.KeyPhase.String(p)))
		}
	}
}

// ofZone returns the attributes of the candidates in a zone; empty if that is unknown.
func (m *telemetry) ofZone(zone string) metric.MeasurementOption {
	if zone == "" {
		return m.at(m.group)
	}
	return m.at(m.group, metrics.KeyCandidateZone.String(zone))
}

// tellLeader tells whether this candidate leads.
func (m *telemetry) tellLeader(ctx context.Context) {
	led := m.led.Load()
	value := number(led != nil && led.left() > 0)
	m.Leader.Record(ctx, value, m.lock)
	m.MasterStatus.Record(ctx, value, m.name)
}

func number(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// leading notes the trust of the term whose work runs; nil if none does.
func (m *telemetry) leading(ctx context.Context, t *trust) {
	m.led.Store(t)
	m.tellLeader(ctx)
}

// know notes which candidates there are.
func (m *telemetry) know(peers []locks.Peer) {
	zones := map[string]int{}
	for _, p := range peers {
		zones[p.Zone]++
	}
	m.candidates.Store(&zones)
}

// renewed counts the answer to a renewal.
func (m *telemetry) renewed(ctx context.Context, took time.Duration, err error) {
	m.Renewals.Record(ctx, took.Seconds(), m.at(metrics.KeyResult.String(metrics.Result(err))))
}

// failedOver counts a takeover of this candidate. ctx is inside its span.
func (m *telemetry) failedOver(ctx context.Context, took time.Duration, where ...attribute.KeyValue) {
	m.Failovers.Record(ctx, took.Seconds(), m.at(where...))
}

// ends names the causes of terms' ends, as context.Cause of the work's context reports them. The first is that of
// a term whose renewals had no answer.
var ends = []struct {
	name  string
	cause error
}{
	{"unanswered", nil},
	{"lost", ErrLost},
	{"resigned", ErrResigned},
	{"handed_over", ErrHandedOver},
	{"unhealthy", ErrUnhealthy},
	{"withdrawn", ErrWithdrawn},
	{"stopped", ErrStopped},
	{"returned", ErrReturned},
}

// termEnded counts a term whose work has stopped.
func (m *telemetry) termEnded(ctx context.Context, cause error) {
	lost := (*lostError)(nil)
	unanswered := errors.As(cause, &lost) && lost.unanswered
	for _, end := range ends {
		if unanswered || end.cause != nil && errors.Is(cause, end.cause) {
			m.countEnd(ctx, end.name, 1)
			return
		}
	}
}

func (m *telemetry) overran(ctx context.Context) { m.Overruns.Add(ctx, 1, m.lock) }
