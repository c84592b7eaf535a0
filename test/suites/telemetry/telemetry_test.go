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
	"go.opentelemetry.io/otel/trace"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
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
		if got := attributes(p)["election.duration"].AsFloat64(); got != length(p).Seconds() {
			c.t.Errorf("%s says that it took %v s, but lasts %v", name, got, length(p))
		}
		at, sum = p.EndTime(), sum+length(p)
		took[name] = length(p)
	}
	if !at.Equal(whole.EndTime()) || sum != length(whole) {
		c.t.Errorf("the phases take %v and end at %v, the whole takes %v and ends at %v", sum, at, length(whole), whole.EndTime())
	}
	if got := attributes(whole)["election.duration"].AsFloat64(); got != length(whole).Seconds() {
		c.t.Errorf("the failover says that it took %v s, but lasts %v", got, length(whole))
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
	case metricdata.Sum[float64]:
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
	ours, same := points(c.metric("election.leader")), points(c.metric("leader_election_master_status"))
	if len(ours) != 1 || len(same) != 1 {
		c.t.Fatalf("election.leader is %v, and leader_election_master_status %v, want one of each", ours, same)
	}
	lock, _ := ours[0].of.Value("election.lock.name")
	if same[0].value != ours[0].value || !same[0].of.Equals(new(attribute.NewSet(attribute.String("name", lock.AsString())))) {
		c.t.Errorf("leader_election_master_status is %+v, election.leader %+v", same, ours)
	}
	return ours[0].value
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

func TestOneFailoverSpanPerTakeoverAndNoneByLosers(t *testing.T) {
	scenario(t, func(s *stage) {
		a, b, c := s.start("a"), s.start("b"), s.start("c")
		a.leads()
		spans := func() [3]int {
			return [3]int{len(a.named("election.failover")), len(b.named("election.failover")), len(c.named("election.failover"))}
		}
		s.want("spans of a, b, c", spans(), [3]int{1, 0, 0})
		time.Sleep(noted)
		a.cancel()
		<-a.over
		synctest.Wait()
		winner, loser := b, c
		if len(c.leading) > 0 {
			winner, loser = c, b
		}
		winner.leads()
		winner.failover()
		s.want("spans that the loser made of any kind", len(loser.spans.Started()), 0)
		winner.link.Set(cut)
		loser.leads()
		loser.failover()
		winner.failover()
		for _, x := range s.seats {
			s.want("spans left open", len(x.spans.Started())-len(x.spans.Ended()), 0)
		}
	})
}

func TestAfterAReleaseItLastsNoTime(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.leads()
		b := s.start("b")
		time.Sleep(noted)
		released := time.Now()
		a.cancel()
		b.leads()
		whole := b.failover()
		s.want("the length", length(whole), time.Duration(0))
		if !whole.StartTime().Equal(released) {
			s.t.Errorf("it starts at %v, the release was at %v", whole.StartTime(), released)
		}
		b.phases(whole)
		s.want("the cause", attributes(whole)["election.cause"].AsString(), string(status.CauseReleased))
	})
}

// placed is a lock in a namespace, with the phase of a migration unless that is nil.
type placed struct {
	locks.Lock
	phase *atomic.Value
}

func phase(name string) *atomic.Value {
	v := &atomic.Value{}
	v.Store(name)
	return v
}

func (placed) Describe() locks.Description {
	return locks.Description{Kind: "Lease", Namespace: "team", Name: "lock"}
}

func (l placed) Capabilities() locks.Capabilities {
	if l.phase == nil {
		return l.Lock.Capabilities()
	}
	return locks.Capabilities{Phases: func() (string, []string) { return l.phase.Load().(string), []string{"legacy", "dual"} }}
}

func TestTheFailoverSaysWhoTookOverFromWhomAndLinksToIt(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.leads()
		b := s.start("b", func(c *election.Config) { c.Lock = placed{c.Lock, nil} })
		time.Sleep(noted)
		before := a.failover().SpanContext()
		s.want("the record's traceparent", s.record().Details.Trace, "00-"+before.TraceID().String()+"-"+before.SpanID().String()+"-01")
		a.link.Set(cut)
		term := b.leads()

		whole := b.failover()
		first, second := attributes(a.failover()), attributes(whole)
		for key, want := range map[attribute.Key]any{
			"election.lock.name":       "lock",
			"election.lock.kind":       "Lease",
			"k8s.namespace.name":       "team",
			"election.cause":           "expired",
			"election.holder":          "b",
			"election.holder.zone":     "z-b",
			"election.previous.holder": "a",
			"election.previous.zone":   "z-a",
			"election.token":           int64(term.Token),
			"election.lease_duration":  lease.Seconds(),
		} {
			s.want(string(key), second[key].AsInterface(), want)
		}
		s.want("the cause of the first", first["election.cause"].AsString(), "absent")
		for _, key := range []attribute.Key{"k8s.namespace.name", "election.previous.holder", "election.previous.zone"} {
			if v, ok := first[key]; ok {
				s.t.Errorf("the first takeover has %s = %q", key, v.AsString())
			}
		}

		if len(a.failover().Links()) != 0 || len(whole.Links()) != 1 {
			s.t.Fatalf("%d and %d links, want 0 and 1", len(a.failover().Links()), len(whole.Links()))
		}
		to, own := whole.Links()[0].SpanContext, whole.SpanContext()
		if to.TraceID() != before.TraceID() || to.SpanID() != before.SpanID() || own.TraceID() == before.TraceID() {
			s.t.Errorf("%v in trace %v links to %v, want %v", own.SpanID(), own.TraceID(), to, before)
		}
		h, _ := b.metric("election.failover.duration").(metricdata.Histogram[float64])
		if len(h.DataPoints) != 1 || h.DataPoints[0].Count != 1 || h.DataPoints[0].Sum != lease.Seconds() || len(h.DataPoints[0].Exemplars) != 1 {
			s.t.Fatalf("it was counted as %+v, want one of %v with an exemplar", h.DataPoints, lease)
		}
		b.wantCounts("election.failover.duration", "election.previous.zone", map[string]int64{"z-a": 1})
		b.wantCounts("election.failover.duration", "election.cause", map[string]int64{"expired": 1})
		trace, id, exemplar := own.TraceID(), own.SpanID(), h.DataPoints[0].Exemplars[0]
		s.want("the exemplar", string(exemplar.TraceID)+string(exemplar.SpanID), string(trace[:])+string(id[:]))
	})
}

func TestAttemptsAreChildrenOfTheAcquisition(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.leads()
		b := s.start("b")
		time.Sleep(noted)
		a.link.Set(cut)
		time.Sleep(lease - time.Second)
		b.link.Set(lockstest.Fault{LoseAnswers: true})
		time.Sleep(2 * time.Second) // the acquisition has landed, but its answer has not arrived
		s.want("the holder", s.record().Holder, "b")
		b.link.Set(lockstest.Fault{})
		b.leads()
		took := b.phases(b.failover())
		s.want("the silence", took["silence"], lease)
		acquire := b.named("election.acquire")[0]
		attempts := b.named("election.attempt")
		if len(attempts) != 2 {
			s.t.Fatalf("%d attempts, want a write, and a read that tells that it landed", len(attempts))
		}
		for i, want := range [][2]string{{"acquire", "ok"}, {"read", "ok"}} {
			x, says := attempts[i], attributes(attempts[i])
			s.want("the operation", says["election.operation"].AsString(), want[0])
			s.want("the result", says["election.result"].AsString(), want[1])
			s.want("the kind", x.SpanKind(), trace.SpanKindClient)
			s.want("the parent", x.Parent().SpanID(), acquire.SpanContext().SpanID())
			if x.StartTime().Before(acquire.StartTime()) || x.EndTime().After(acquire.EndTime()) {
				s.t.Errorf("attempt %d is not within the acquisition", i)
			}
			_, resent := says["http.request.resend_count"]
			s.want("whether it was resent", resent, i > 0)
		}
		s.want("the first attempt's length", length(attempts[0]), interval)
		if _, failed := attributes(attempts[0])["error.type"]; failed {
			s.t.Error("the attempt that won has an error.type")
		}
	})
}

func TestWithoutProvidersNothingIsNoted(t *testing.T) {
	scenario(t, func(s *stage) {
		none := func(c *election.Config) { c.TracerProvider, c.MeterProvider = nil, nil }
		a := s.start("a", none)
		a.leads()
		b := s.start("b", none)
		time.Sleep(noted)
		if d := s.record().Details; d.Trace != "" || d.Token == 0 {
			s.t.Errorf("details are %+v", d)
		}
		a.link.Set(cut)
		b.leads()
		time.Sleep(noted)
		s.want("the traceparent", s.record().Details.Trace, "")
	})
}

func TestTheLeaderGaugeIsOneWhileLeadingAndFallsThoughTheReleaseDoesNotGetThrough(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.leads()
		b := s.start("b")
		s.want("a while it leads", a.gauge(), 1.0)
		s.want("b while a leads", b.gauge(), 0.0)
		time.Sleep(noted)
		a.link.Set(cut)
		time.Sleep(deadline - time.Second)
		a.cancel() // the work stops at once, the release hangs
		b.leads()
		s.want("a while b leads", a.gauge(), 0.0)
		s.want("b while it leads", b.gauge(), 1.0)
	})
}

func TestPhasesAddUpWithATakeoverDelayAndASlowNetwork(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.leads()
		began := time.Now()
		b := s.start("b", func(c *election.Config) {
			c.TakeoverDelay = func(election.Takeover) time.Duration { return 3 * time.Second }
		})
		time.Sleep(5*interval + time.Millisecond)
		a.link.Set(cut)
		// Both ways: the watch shows b its own write before the answer does.
		b.link.Set(lockstest.Fault{Delay: 200 * time.Millisecond})
		term := b.leads()
		s.want("the term's cause", term.Cause, status.CauseExpired)
		s.want("the term's predecessor", term.Previous, "a")
		whole := b.failover()
		if want := began.Add(5 * interval); !whole.StartTime().Equal(want) {
			s.t.Errorf("it starts at %v, want the last renewal at %v", whole.StartTime(), want)
		}
		s.want("a parent", whole.Parent().IsValid(), false)
		took := b.phases(whole)
		s.want("the silence", took["silence"], lease)
		s.want("the takeover delay", took["delay"], 3*time.Second)
		s.want("the acquisition", took["acquire"], 400*time.Millisecond)
		s.want("the length", length(whole), lease+3400*time.Millisecond)
	})
}

func TestAnOverrunIsCountedOnce(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a", func(c *election.Config) { c.Timing.StopTimeout = 3 * time.Second })
		a.stopTime.Store(int64(time.Minute))
		a.leads()
		s.want("overruns before", len(a.count("election.stop.overruns", "")), 0)
		a.link.Set(cut)
		time.Sleep(80 * time.Second)
		s.want("overruns", a.count("election.stop.overruns", "")[""], int64(1))
	})
}
