// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/zonelect/zonelect/locks"
)

// scope names what emits the telemetry.
const scope = "github.com/zonelect/zonelect/election"

// Attribute keys. Those without the prefix "election." are OpenTelemetry's
// semantic conventions.
const (
	keyLock           = attribute.Key("election.lock.name")
	keyLockKind       = attribute.Key("election.lock.kind")
	keyNamespace      = attribute.Key("k8s.namespace.name")
	keyCause          = attribute.Key("election.cause")
	keyHolder         = attribute.Key("election.holder")
	keyHolderZone     = attribute.Key("election.holder.zone")
	keyPrevious       = attribute.Key("election.previous.holder")
	keyPreviousZone   = attribute.Key("election.previous.zone")
	keyToken          = attribute.Key("election.token")
	keyLeaseDuration  = attribute.Key("election.lease_duration")
	keyDuration       = attribute.Key("election.duration")
	keyOperation      = attribute.Key("election.operation")
	keyResult         = attribute.Key("election.result")
	keyErrorType      = attribute.Key("error.type")
	keyResendCount    = attribute.Key("http.request.resend_count")
	keyResponseStatus = attribute.Key("http.response.status_code")
)

// telemetry emits an elector's spans and metrics to OpenTelemetry.
type telemetry struct {
	tracer   trace.Tracer
	timing   Timing
	lock     []attribute.KeyValue
	lockOnly metric.MeasurementOption

	leader    metric.Int64Gauge
	master    metric.Int64Gauge // leader, as client-go names it
	name      metric.MeasurementOption
	renewals  metric.Int64Counter
	failovers metric.Float64Histogram
	overruns  metric.Int64Counter
}

func newTelemetry(c Config) (*telemetry, error) {
	tracers := cmp.Or[trace.TracerProvider](c.TracerProvider, tracenoop.NewTracerProvider())
	meter := cmp.Or[metric.MeterProvider](c.MeterProvider, metricnoop.NewMeterProvider()).Meter(scope)
	lock := lockAttributes(c.Lock.Describe())
	t := &telemetry{
		tracer:   tracers.Tracer(scope),
		timing:   c.Timing,
		lock:     lock,
		lockOnly: metric.WithAttributeSet(attribute.NewSet(lock...)),
		name:     metric.WithAttributes(attribute.String("name", c.Lock.Describe().Name)),
	}
	var errs [5]error
	t.leader, errs[0] = meter.Int64Gauge("election.leader",
		metric.WithDescription("1 while this candidate leads, else 0."))
	t.renewals, errs[1] = meter.Int64Counter("election.renewals", metric.WithUnit("{renewal}"),
		metric.WithDescription("Renewals that this candidate sent as the leader, by result."))
	t.failovers, errs[2] = meter.Float64Histogram("election.failover.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from the last sign of life of a leader to the start of the next one's work, by cause."),
		metric.WithExplicitBucketBoundaries(.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15, 20, 30, 60, 120))
	t.overruns, errs[3] = meter.Int64Counter("election.stop.overruns", metric.WithUnit("{overrun}"),
		metric.WithDescription("Terms whose work did not stop in the time that it had."))
	t.master, errs[4] = meter.Int64Gauge("leader_election_master_status",
		metric.WithDescription("What election.leader is, under the name and with the one label that client-go's electors have."))
	t.leading(context.Background(), false)
	return t, errors.Join(errs[:]...)
}

func lockAttributes(d locks.Description) []attribute.KeyValue {
	all := []attribute.KeyValue{keyLock.String(d.Name), keyLockKind.String(d.Kind)}
	if d.Namespace != "" {
		all = append(all, keyNamespace.String(d.Namespace))
	}
	return all
}

func (t *telemetry) leading(ctx context.Context, yes bool) {
	value := int64(0)
	if yes {
		value = 1
	}
	t.leader.Record(ctx, value, t.lockOnly)
	t.master.Record(ctx, value, t.name)
}

func (t *telemetry) overrun(ctx context.Context) { t.overruns.Add(ctx, 1, t.lockOnly) }

func (t *telemetry) failedOver(ctx context.Context, took time.Duration, cause attribute.KeyValue) {
	t.failovers.Record(ctx, took.Seconds(), t.lockOnly, metric.WithAttributes(cause))
}

func (t *telemetry) renewal(ctx context.Context, err error) {
	t.renewals.Add(ctx, 1, t.lockOnly, metric.WithAttributes(keyResult.String(result(err))))
}

// result is the outcome of a request in one word.
func result(err error) string {
	var timeout interface{ Timeout() bool }
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, locks.ErrConflict):
		return "conflict"
	case errors.Is(err, locks.ErrForbidden):
		return "forbidden"
	case errors.Is(err, locks.ErrNoAPI):
		return "no_api"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return "error"
}
