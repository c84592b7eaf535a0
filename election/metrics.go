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

	"github.com/zonelect/zonelect/internal/metrics"
	"github.com/zonelect/zonelect/locks"
)

// meters emit an elector's metrics to OpenTelemetry. Their methods are safe for concurrent
// use, start no goroutine, and do nothing if meters is nil.
//
// What is true for a time is observed at each collection while Run runs, and is not told
// afterwards. Only that this candidate does not lead is told for good, because the backends
// that metrics are pushed to remember for minutes that it did.
type meters struct {
	*metrics.Instruments
	place []attribute.KeyValue              // the lock without its name
	lock  metric.MeasurementOption          // the lock
	name  metric.MeasurementOption          // the lock as client-go names it
	group attribute.KeyValue                // the lock, or what names the candidates of several locks
	phase func() (now string, all []string) // nil without a migration

	led        atomic.Pointer[trust]          // of the term whose work runs; nil if none does
	candidates atomic.Pointer[map[string]int] // by zone; nil while nothing is known
}

// newMeters returns nil if nobody wants metrics.
func newMeters(c Config) (*meters, error) {
	if c.MeterProvider == nil {
		return nil, nil
	}
	instruments, err := metrics.New(c.MeterProvider)
	if err != nil {
		return nil, err
	}
	d, can := c.Lock.Describe(), c.Lock.Capabilities()
	m := &meters{
		Instruments: instruments,
		place:       metrics.Place(d),
		lock:        set(lockAttributes(d)...),
		name:        set(metrics.KeyMasterName.String(d.Name)),
		group:       metrics.KeyLock.String(cmp.Or(can.Group, d.Name)),
		phase:       can.Phases,
	}
	m.tellLeader(context.Background())
	return m, nil
}

func set(all ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(all...))
}

// at returns some attributes together with those of the lock except its name.
func (m *meters) at(more ...attribute.KeyValue) metric.MeasurementOption {
	return set(slices.Concat(m.place, more)...)
}

// start has the metrics exported at each collection until end is called. It makes the counter of terms' ends
// exist before it counts: Prometheus takes the first value of a series for where it began, so it would never
// see the first end in a process, which is often the only one.
func (m *meters) start(e *Elector, log logr.Logger) (end func()) {
	if m == nil {
		return func() {}
	}
	for _, end := range ends {
		m.countEnd(context.Background(), end.name, 0)
	}
	registration, err := e.config.MeterProvider.Meter(metrics.Scope).RegisterCallback(func(ctx context.Context, o metric.Observer) error {
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

func (m *meters) countEnd(ctx context.Context, end string, n int64) {
	m.TermEnds.Add(ctx, n, m.at(metrics.KeyEnd.String(end)))
}

// observe tells what is true at this very moment. A term may have run out although the loop
// hangs, so it asks the trust itself.
func (m *meters) observe(ctx context.Context, o metric.Observer, term Term) {
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
func (m *meters) ofZone(zone string) metric.MeasurementOption {
	if zone == "" {
		return m.at(m.group)
	}
	return m.at(m.group, metrics.KeyCandidateZone.String(zone))
}

// tellLeader tells whether this candidate leads.
func (m *meters) tellLeader(ctx context.Context) {
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
func (m *meters) leading(ctx context.Context, t *trust) {
	if m != nil {
		m.led.Store(t)
		m.tellLeader(ctx)
	}
}

// know notes which candidates there are.
func (m *meters) know(peers []locks.Peer) {
	if m == nil {
		return
	}
	zones := map[string]int{}
	for _, p := range peers {
		zones[p.Zone]++
	}
	m.candidates.Store(&zones)
}

// renewed counts the answer to a renewal.
func (m *meters) renewed(ctx context.Context, took time.Duration, err error) {
	if m != nil {
		m.Renewals.Record(ctx, took.Seconds(), m.at(metrics.KeyResult.String(metrics.Result(err))))
	}
}

// failedOver counts a takeover of this candidate. ctx is inside its span.
func (m *meters) failedOver(ctx context.Context, took time.Duration, where ...attribute.KeyValue) {
	if m != nil {
		m.Failovers.Record(ctx, took.Seconds(), m.at(where...))
	}
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
func (m *meters) termEnded(ctx context.Context, cause error) {
	if m == nil {
		return
	}
	lost := (*lostError)(nil)
	unanswered := errors.As(cause, &lost) && lost.unanswered
	for _, end := range ends {
		if unanswered || end.cause != nil && errors.Is(cause, end.cause) {
			m.countEnd(ctx, end.name, 1)
			return
		}
	}
}

func (m *meters) overran(ctx context.Context) {
	if m != nil {
		m.Overruns.Add(ctx, 1, m.lock)
	}
}
