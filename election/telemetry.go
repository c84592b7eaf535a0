// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"cmp"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/zonelect/zonelect/internal/metrics"
	"github.com/zonelect/zonelect/locks"
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

// telemetry emits an elector's spans to OpenTelemetry.
type telemetry struct {
	tracer trace.Tracer
	timing Timing
	lock   []attribute.KeyValue
}

func newTelemetry(c Config) *telemetry {
	tracers := cmp.Or[trace.TracerProvider](c.TracerProvider, tracenoop.NewTracerProvider())
	return &telemetry{tracer: tracers.Tracer(metrics.Scope), timing: c.Timing, lock: lockAttributes(c.Lock.Describe())}
}

func lockAttributes(d locks.Description) []attribute.KeyValue {
	return append(metrics.Place(d), metrics.KeyLock.String(d.Name))
}
