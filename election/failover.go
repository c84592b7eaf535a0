// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/zonelect/zonelect/election/internal/rules"
	"github.com/zonelect/zonelect/internal/metrics"
)

// Attribute keys of spans alone; package metrics has the others. Those without the prefix
// "election." are OpenTelemetry's semantic conventions.
const (
	keyHolder         = attribute.Key("election.holder")
	keyPrevious       = attribute.Key("election.previous.holder")
	keyToken          = attribute.Key("election.token")
	keyLeaseDuration  = attribute.Key("election.lease_duration")
	keyDuration       = attribute.Key("election.duration")
	keyOperation      = attribute.Key("election.operation")
	keyErrorType      = attribute.Key("error.type")
	keyResendCount    = attribute.Key("http.request.resend_count")
	keyResponseStatus = attribute.Key("http.response.status_code")
)

// traceparent is the key of the W3C header, which records carry too.
const traceparent = "traceparent"

// failover is the span of one takeover. It begins when the takeover is won, because only
// then is it known to be one. Its phases follow each other without a gap.
type failover struct {
	telemetry *telemetry
	ctx       context.Context
	span      trace.Span
	stamp     func(time.Time) time.Time
	life      time.Time            // where the span starts
	won       time.Time            // where lock adoption starts
	ready     time.Time            // where its last phase starts
	where     []attribute.KeyValue // the cause, and the zones
}

// failover begins the span of a takeover, with its phases up to the acquisition.
func (t *telemetry) failover(ctx context.Context, won acquisition, term Term) *failover {
	attempts, last := won.inOrder(), won.won()
	first := attempts[0]
	f := &failover{
		telemetry: t,
		stamp:     monotonicStamps(),
		life:      won.Life,
		won:       last.end,
		where:     failoverPlaces(won, term),
	}
	f.ctx, f.span = t.tracer.Start(ctx, "election.failover",
		trace.WithNewRoot(),
		trace.WithTimestamp(f.stamp(f.life)),
		trace.WithLinks(links(won.Details.Trace)...),
		trace.WithAttributes(t.whole...),
		trace.WithAttributes(t.failoverAttributes(won, term)...),
	)
	free := rules.Latest(won.At, won.Life)
	claimed := rules.Latest(first.sent.awake, free)
	f.phase("election.silence", f.life, free)
	f.phase("election.delay", free, claimed)
	acquire := f.phase("election.acquire", claimed, last.end)
	for i, a := range attempts {
		f.attempt(acquire, a, i)
	}
	return f
}

// adopted ends the phase in which this candidate holds the lock and its work may not begin
// yet.
func (f *failover) adopted(now time.Time) {
	f.ready = now
	f.phase("election.adopt", f.won, f.ready)
}

func (t *telemetry) failoverAttributes(won acquisition, term Term) []attribute.KeyValue {
	all := append(failoverPlaces(won, term),
		keyHolder.String(term.Holder),
		keyToken.Int64(int64(term.Token)),
		keyLeaseDuration.Float64(t.timing.LeaseDuration.Seconds()),
	)
	if won.Holder != "" {
		all = append(all, keyPrevious.String(won.Holder))
	}
	return all
}

// failoverPlaces returns why a takeover happened, and from which zone to which.
func failoverPlaces(won acquisition, term Term) []attribute.KeyValue {
	all := []attribute.KeyValue{metrics.KeyCause.String(string(won.Cause))}
	for key, zone := range map[attribute.Key]string{metrics.KeyHolderZone: term.Zone, metrics.KeyPreviousZone: won.Details.Zone} {
		if zone != "" {
			all = append(all, key.String(zone))
		}
	}
	return all
}

// phase emits the span of one phase and returns a context inside it.
func (f *failover) phase(name string, start, end time.Time) context.Context {
	ctx, span := f.telemetry.tracer.Start(f.ctx, name, trace.WithTimestamp(f.stamp(start)),
		trace.WithAttributes(keyDuration.Float64(end.Sub(start).Seconds())))
	span.End(trace.WithTimestamp(f.stamp(end)))
	return ctx
}

func (f *failover) attempt(ctx context.Context, a answer, resend int) {
	_, span := f.telemetry.tracer.Start(ctx, "election.attempt",
		trace.WithSpanKind(trace.SpanKindClient),
		trace.WithTimestamp(f.stamp(a.sent.awake)),
		trace.WithAttributes(keyOperation.String(string(a.op)), metrics.KeyResult.String(metrics.Result(a.err))))
	if resend > 0 {
		span.SetAttributes(keyResendCount.Int(resend))
	}
	var status interface{ StatusCode() int }
	if errors.As(a.err, &status) {
		span.SetAttributes(keyResponseStatus.Int(status.StatusCode()))
	}
	if a.err != nil {
		span.SetAttributes(keyErrorType.String(metrics.Result(a.err)))
		span.SetStatus(codes.Error, a.err.Error())
	}
	span.End(trace.WithTimestamp(f.stamp(a.end)))
}

// working ends the span, because the work runs. The work's goroutine calls it.
func (f *failover) working(now time.Time) {
	f.phase("election.work_start", f.ready, now)
	took := now.Sub(f.life)
	f.span.SetAttributes(keyDuration.Float64(took.Seconds()))
	f.span.End(trace.WithTimestamp(f.stamp(now)))
	f.telemetry.failedOver(f.ctx, took, f.where...)
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

// monotonicStamps returns a function that turns readings of the clock into
// wall clock times whose differences are those of the monotonic clock, even
// if the wall clock was set in between.
func monotonicStamps() func(time.Time) time.Time {
	now := time.Now()
	wall := now.Round(0)
	return func(t time.Time) time.Time { return wall.Add(t.Sub(now)) }
}
