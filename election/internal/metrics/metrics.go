// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics has all instruments through which this library reports to OpenTelemetry.
// docs/metrics.md is their reference: a test compares the two.
package metrics

import (
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/zonelect/zonelect/locks"
)

// Scope names what emits the telemetry.
const Scope = "github.com/zonelect/zonelect/election"

// Attribute keys. Those without the prefix "election." are OpenTelemetry's semantic
// conventions.
const (
	KeyLock          = attribute.Key("election.lock.name")
	KeyLockKind      = attribute.Key("election.lock.kind")
	KeyNamespace     = attribute.Key("k8s.namespace.name")
	KeyCause         = attribute.Key("election.cause")
	KeyEnd           = attribute.Key("election.end")
	KeyHolderZone    = attribute.Key("election.holder.zone")
	KeyPreviousZone  = attribute.Key("election.previous.zone")
	KeyCandidateZone = attribute.Key("election.candidate.zone")
	KeyPhase         = attribute.Key("election.phase")
	KeyResult        = attribute.Key("election.result")
)

// Instruments are all instruments. An instrument that may have more than one series for each
// lock has no attribute for the lock's name, so that 1,000 locks stay below the 2,000 series
// that the SDK allows an instrument. Gauges of candidates and phases are the exception: locks
// that are many share their candidates and have no phase.
type Instruments struct {
	Leader     metric.Int64Gauge
	TimeLeft   metric.Float64ObservableGauge
	Candidates metric.Int64ObservableGauge
	Phase      metric.Int64ObservableGauge
	Renewals   metric.Float64Histogram
	Failovers  metric.Float64Histogram
	TermEnds   metric.Int64Counter
	Overruns   metric.Int64Counter
}

// New returns the instruments of a provider, which is not nil.
func New(provider metric.MeterProvider) (*Instruments, error) {
	m := provider.Meter(Scope)
	var i Instruments
	var errs [8]error
	i.Leader, errs[0] = m.Int64Gauge("election.leader", metric.WithUnit("{leader}"),
		metric.WithDescription("1 while this candidate leads, else 0."))
	i.TimeLeft, errs[1] = m.Float64ObservableGauge("election.term.time_left", metric.WithUnit("s"),
		metric.WithDescription("How much longer the term of this candidate is trusted if no renewal extends it; 0 without a term."))
	i.Candidates, errs[2] = m.Int64ObservableGauge("election.candidates", metric.WithUnit("{candidate}"),
		metric.WithDescription("Candidates that this one knows, itself included, by zone."))
	i.Phase, errs[3] = m.Int64ObservableGauge("election.migration.phase", metric.WithUnit("{phase}"),
		metric.WithDescription("1 for the phase of the migration that this candidate has seen last, 0 for the others."))
	i.Renewals, errs[4] = m.Float64Histogram("election.renewal.duration", metric.WithUnit("s"),
		metric.WithDescription("Renewals that this candidate sent as the leader, from the request to the answer, by result."),
		metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10))
	i.Failovers, errs[5] = m.Float64Histogram("election.failover.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from the last sign of life of a leader to the start of this candidate's work, by cause and zones."),
		metric.WithExplicitBucketBoundaries(.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15, 20, 30, 60, 120))
	i.TermEnds, errs[6] = m.Int64Counter("election.term.ends", metric.WithUnit("{term}"),
		metric.WithDescription("Terms of this candidate that have ended, by why."))
	i.Overruns, errs[7] = m.Int64Counter("election.stop.overruns", metric.WithUnit("{overrun}"),
		metric.WithDescription("Terms whose work did not stop in the time that it had."))
	return &i, errors.Join(errs[:]...)
}

// Result is the outcome of a request in one word.
func Result(err error) string {
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

// Known returns those of some texts that are not empty.
func Known(all ...attribute.KeyValue) []attribute.KeyValue {
	return slices.DeleteFunc(all, func(a attribute.KeyValue) bool { return a.Value.AsString() == "" })
}
