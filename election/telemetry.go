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
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/zonelect/zonelect/election/internal/metrics"
	"github.com/zonelect/zonelect/election/internal/rules"
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
	place := metrics.Known(metrics.KeyLockKind.String(d.Kind), metrics.KeyNamespace.String(d.Namespace))
	whole := slices.Concat(place, []attribute.KeyValue{metrics.KeyLock.String(d.Name)})
	t := &telemetry{
		Instruments: instruments,
		meter:       meters.Meter(metrics.Scope),
		tracer:      tracers.Tracer(metrics.Scope),
		timing:      c.Timing,
		place:       place,
		whole:       whole,
		lock:        set(whole...),
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
			_ = registration.Unregister() // that of the SDK never fails
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
			where := metrics.Known(metrics.KeyCandidateZone.String(zone), m.group)
			o.ObserveInt64(m.Candidates, int64(n), m.at(where...))
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

// tellLeader tells whether this candidate leads.
func (m *telemetry) tellLeader(ctx context.Context) {
	led := m.led.Load()
	m.Leader.Record(ctx, number(led != nil && led.left() > 0), m.lock)
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

// ends names the causes of terms' ends, as context.Cause of the work's context reports them.
var ends = []struct {
	name  string
	cause error
}{
	{"unanswered", errUnanswered},
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
	for _, end := range ends {
		if errors.Is(cause, end.cause) {
			m.countEnd(ctx, end.name, 1)
			return
		}
	}
}

func (m *telemetry) overran(ctx context.Context) { m.Overruns.Add(ctx, 1, m.lock) }

// Attribute keys of spans alone; package metrics has the others.
const (
	keyHolder        = attribute.Key("election.holder")
	keyPrevious      = attribute.Key("election.previous.holder")
	keyToken         = attribute.Key("election.token")
	keyLeaseDuration = attribute.Key("election.lease_duration")
)

// traceparent is the key of the W3C header, which records carry too.
const traceparent = "traceparent"

// failover is the span of one takeover. It begins when the takeover is won, because only
// then is it known to be one. Its phases follow each other without a gap.
type failover struct {
	telemetry *telemetry
	ctx       context.Context
	span      trace.Span
	life      time.Time            // where the span starts
	at        time.Time            // where its next phase starts
	where     []attribute.KeyValue // the cause, and the zones
}

// failover begins the span of a takeover, with its phases up to the acquisition.
func (m *telemetry) failover(ctx context.Context, won acquisition, term Term) *failover {
	f := &failover{
		telemetry: m,
		life:      won.Life,
		at:        won.Life,
		where: metrics.Known(metrics.KeyHolderZone.String(term.Zone), metrics.KeyPreviousZone.String(won.Details.Zone),
			metrics.KeyCause.String(string(won.Cause))),
	}
	f.ctx, f.span = m.tracer.Start(ctx, "election.failover",
		trace.WithNewRoot(),
		trace.WithTimestamp(f.life),
		trace.WithLinks(links(won.Details.Trace)...),
		trace.WithAttributes(slices.Concat(m.whole, f.where, metrics.Known(keyPrevious.String(won.Holder)))...),
		trace.WithAttributes(
			keyHolder.String(term.Holder),
			keyToken.Int64(int64(term.Token)),
			keyLeaseDuration.Float64(m.timing.LeaseDuration.Seconds()),
		),
	)
	free := rules.Latest(won.At, won.Life)
	f.phase("election.silence", free)
	f.phase("election.delay", rules.Latest(won.first, free))
	f.phase("election.acquire", won.won.end)
	return f
}

// phase emits the span of the next phase.
func (f *failover) phase(name string, end time.Time) {
	_, span := f.telemetry.tracer.Start(f.ctx, name, trace.WithTimestamp(f.at))
	span.End(trace.WithTimestamp(end))
	f.at = end
}

// adopted ends the phase in which this candidate holds the lock and its work may not begin
// yet.
func (f *failover) adopted() { f.phase("election.adopt", time.Now()) }

// working ends the span, because the work runs. The work's goroutine calls it.
func (f *failover) working() {
	f.phase("election.work_start", time.Now())
	f.span.End(trace.WithTimestamp(f.at))
	f.telemetry.Failovers.Record(f.ctx, f.at.Sub(f.life).Seconds(), f.telemetry.at(f.where...))
}

// traceparent identifies the span to other processes; empty without a tracer.
func (f *failover) traceparent() string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(f.ctx, carrier)
	return carrier[traceparent]
}

func links(parent string) []trace.Link {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{traceparent: parent})
	if previous := trace.SpanContextFromContext(ctx); previous.IsValid() {
		return []trace.Link{{SpanContext: previous}}
	}
	return nil
}
