// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package telemetry_test checks what electors report to OpenTelemetry against
// its SDK, which the root module does not depend on.
package telemetry_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
	"github.com/zonelect/zonelect/locks/memory"
)

const (
	lease    = timing.DefaultLeaseDuration
	deadline = timing.DefaultRenewDeadline
	interval = timing.DefaultRenewInterval
	noted    = interval + time.Millisecond // by then the token and the trace are on the record
)

var cut = lockstest.Fault{Hang: true}

// stage is one lock and its candidates, in a bubble of virtual time.
type stage struct {
	t     *testing.T
	lock  *memory.Lock
	seats []*seat
}

// seat is one candidate with providers of its own.
type seat struct {
	*election.Elector
	t        *testing.T
	link     *lockstest.Faulty
	spans    *tracetest.SpanRecorder
	reader   *sdkmetric.ManualReader
	cancel   context.CancelFunc
	over     chan struct{}
	leading  chan election.Term
	stopTime atomic.Int64 // how many nanoseconds the work takes to stop
}

func scenario(t *testing.T, f func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t, lock: memory.New("lock")}
		defer func() {
			for _, c := range s.seats {
				c.link.Set(lockstest.Fault{})
				c.cancel()
			}
			for _, c := range s.seats {
				<-c.over
			}
		}()
		f(s)
	})
}

// start creates a candidate and lets it campaign until nothing more happens.
func (s *stage) start(identity string, change ...func(*election.Config)) *seat {
	s.t.Helper()
	c := &seat{
		t:       s.t,
		link:    lockstest.NewFaulty(s.lock),
		spans:   tracetest.NewSpanRecorder(),
		reader:  sdkmetric.NewManualReader(),
		over:    make(chan struct{}),
		leading: make(chan election.Term, 100),
	}
	config := election.Config{
		TakeoverDelay: func(election.Takeover) time.Duration { return 0 }, // no spread
		Lock:          c.link,
		Candidate:     locks.Candidate{Identity: identity, Zone: "z-" + identity},
		TracerProvider: sdktrace.NewTracerProvider(
			sdktrace.WithResource(resource.Empty()), sdktrace.WithSpanProcessor(c.spans)),
		MeterProvider: sdkmetric.NewMeterProvider(
			sdkmetric.WithResource(resource.Empty()), sdkmetric.WithReader(c.reader)),
	}
	for _, f := range change {
		f(&config)
	}
	var err error
	if c.Elector, err = election.New(config); err != nil {
		s.t.Fatal(err)
	}
	var ctx context.Context
	ctx, c.cancel = context.WithCancel(s.t.Context())
	s.seats = append(s.seats, c)
	go func() {
		defer close(c.over)
		if err := c.Run(ctx, c.work); err != nil {
			c.t.Errorf("Run: %v", err)
		}
	}()
	synctest.Wait()
	return c
}

func (c *seat) work(ctx context.Context, term election.Term) error {
	c.leading <- term
	<-ctx.Done()
	time.Sleep(time.Duration(c.stopTime.Load()))
	return ctx.Err()
}

// leads waits for c's next term.
func (c *seat) leads() election.Term {
	c.t.Helper()
	select {
	case term := <-c.leading:
		synctest.Wait()
		return term
	case <-time.After(time.Hour):
		c.t.Fatal("no term within an hour")
		return election.Term{}
	}
}

// named returns c's ended spans of that name, in the order of their ends.
func (c *seat) named(name string) []sdktrace.ReadOnlySpan {
	var all []sdktrace.ReadOnlySpan
	for _, s := range c.spans.Ended() {
		if s.Name() == name {
			all = append(all, s)
		}
	}
	return all
}

// failover returns c's only failover span.
func (c *seat) failover() sdktrace.ReadOnlySpan {
	c.t.Helper()
	all := c.named("election.failover")
	if len(all) != 1 {
		c.t.Fatalf("%d failover spans, want 1", len(all))
	}
	return all[0]
}

func length(s sdktrace.ReadOnlySpan) time.Duration { return s.EndTime().Sub(s.StartTime()) }

func attributes(s sdktrace.ReadOnlySpan) map[attribute.Key]attribute.Value {
	all := map[attribute.Key]attribute.Value{}
	for _, a := range s.Attributes() {
		all[a.Key] = a.Value
	}
	return all
}

// phases checks that the five phases fill the span without a gap, and returns
// how long each took.
func (c *seat) phases(whole sdktrace.ReadOnlySpan) map[string]time.Duration {
	c.t.Helper()
	took := map[string]time.Duration{}
	at, sum := whole.StartTime(), time.Duration(0)
	for _, name := range []string{"silence", "delay", "acquire", "adopt", "work_start"} {
		all := c.named("election." + name)
		if len(all) != 1 {
			c.t.Fatalf("%d spans of %s, want 1", len(all), name)
		}
		p := all[0]
		if p.Parent().SpanID() != whole.SpanContext().SpanID() {
			c.t.Errorf("%s is not a child of the failover", name)
		}
		if !p.StartTime().Equal(at) || length(p) < 0 {
			c.t.Errorf("%s lasts from %v to %v, the phase before ended at %v", name, p.StartTime(), p.EndTime(), at)
		}
		at, sum = p.EndTime(), sum+length(p)
		took[name] = length(p)
	}
	if !at.Equal(whole.EndTime()) || sum != length(whole) {
		c.t.Errorf("the phases take %v and end at %v, the whole takes %v and ends at %v", sum, at, length(whole), whole.EndTime())
	}
	return took
}

func (s *stage) record() locks.Record {
	s.t.Helper()
	now, err := s.lock.Read(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return now.Record
}

func (s *stage) want(what string, got, want any) {
	s.t.Helper()
	if got != want {
		s.t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// metrics are all that was collected.
func (c *seat) metrics() (all []metricdata.Metrics) {
	c.t.Helper()
	var collected metricdata.ResourceMetrics
	if err := c.reader.Collect(c.t.Context(), &collected); err != nil {
		c.t.Fatal(err)
	}
	for _, scope := range collected.ScopeMetrics {
		all = append(all, scope.Metrics...)
	}
	return all
}

// metric returns what was collected under a name; nil if nothing was.
func (c *seat) metric(name string) metricdata.Aggregation {
	c.t.Helper()
	for _, m := range c.metrics() {
		if m.Name == name {
			return m.Data
		}
	}
	return nil
}

// point is a value that was collected, or how many a histogram has.
type point struct {
	of    attribute.Set
	value float64
}

// points returns all values of a metric.
func points(data metricdata.Aggregation) (all []point) {
	switch data := data.(type) {
	case metricdata.Sum[int64]:
		return numbers(data.DataPoints)
	case metricdata.Gauge[int64]:
		return numbers(data.DataPoints)
	case metricdata.Gauge[float64]:
		return numbers(data.DataPoints)
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			all = append(all, point{p.Attributes, float64(p.Count)})
		}
	}
	return all
}

func numbers[N int64 | float64](data []metricdata.DataPoint[N]) (all []point) {
	for _, p := range data {
		all = append(all, point{p.Attributes, float64(p.Value)})
	}
	return all
}

// gauge returns the value of election.leader.
func (c *seat) gauge() float64 {
	c.t.Helper()
	all := points(c.metric("election.leader"))
	if len(all) != 1 {
		c.t.Fatalf("election.leader is %v, want one", all)
	}
	return all[0].value
}

// count returns a metric's values, or how many values a histogram has, keyed by one
// attribute.
func (c *seat) count(name string, by attribute.Key) map[string]int64 {
	c.t.Helper()
	all := map[string]int64{}
	for _, p := range points(c.metric(name)) {
		v, _ := p.of.Value(by)
		all[v.AsString()] += int64(p.value)
	}
	return all
}
