// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics has all instruments through which this library reports to OpenTelemetry.
// docs/metrics.md is their reference: a test compares the two.
package metrics

import (
	"context"
	"errors"

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
	KeyEvacuatedZone = attribute.Key("election.evacuated.zone")
	KeyPhase         = attribute.Key("election.phase")
	KeyResult        = attribute.Key("election.result")

	KeyMasterName = attribute.Key("name") // the label that client-go's electors have
)

// Instruments are all instruments. An instrument that may have more than one series for each
// lock has no attribute for the lock's name, so that 1,000 locks stay below the 2,000 series
// that the SDK allows an instrument. Gauges of candidates, phases and evacuated zones are the
// exception: locks that are many share their candidates, have no phase, and are seldom to leave
// more than one zone.
type Instruments struct {
	Leader        metric.Int64Gauge
	MasterStatus  metric.Int64Gauge // Leader, as client-go names it
	TimeLeft      metric.Float64ObservableGauge
	Candidates    metric.Int64ObservableGauge
	Phase         metric.Int64ObservableGauge
	Evacuated     metric.Int64ObservableGauge
	UnhealthyTime metric.Float64ObservableCounter
	Renewals      metric.Float64Histogram
	Failovers     metric.Float64Histogram
	Interruptions metric.Float64Histogram
	Transitions   metric.Int64Counter
	TermEnds      metric.Int64Counter
	Overruns      metric.Int64Counter
	Refusals      metric.Int64Counter
	WatchRestarts metric.Int64Counter
}

// New returns the instruments of a provider, which is not nil.
func New(provider metric.MeterProvider) (*Instruments, error) {
	m := provider.Meter(Scope)
	var i Instruments
	var errs [15]error
	i.Leader, errs[0] = m.Int64Gauge("election.leader", metric.WithUnit("{leader}"),
		metric.WithDescription("1 while this candidate leads, else 0."))
	i.MasterStatus, errs[1] = m.Int64Gauge("leader_election_master_status",
		metric.WithDescription("The same as election.leader, under client-go's name and with client-go's label."))
	i.TimeLeft, errs[2] = m.Float64ObservableGauge("election.term.time_left", metric.WithUnit("s"),
		metric.WithDescription("How much longer the term of this candidate is trusted if no renewal extends it; 0 without a term."))
	i.Candidates, errs[3] = m.Int64ObservableGauge("election.candidates", metric.WithUnit("{candidate}"),
		metric.WithDescription("Candidates that this one knows, itself included, by zone."))
	i.Phase, errs[4] = m.Int64ObservableGauge("election.migration.phase", metric.WithUnit("{phase}"),
		metric.WithDescription("1 for the phase of the migration that this candidate has seen last, 0 for the others."))
	i.UnhealthyTime, errs[5] = m.Float64ObservableCounter("election.unhealthy.time", metric.WithUnit("s"),
		metric.WithDescription("For how long this candidate was unhealthy by its own check."))
	i.Renewals, errs[6] = m.Float64Histogram("election.renewal.duration", metric.WithUnit("s"),
		metric.WithDescription("Renewals that this candidate sent as the leader, from the request to the answer, by result."),
		metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10))
	i.Failovers, errs[7] = m.Float64Histogram("election.failover.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from the last sign of life of a leader to the start of this candidate's work, by cause and zones."),
		metric.WithExplicitBucketBoundaries(.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15, 20, 30, 60, 120))
	i.Transitions, errs[8] = m.Int64Counter("election.transitions", metric.WithUnit("{transition}"),
		metric.WithDescription("Terms that this candidate has seen begin, its own included, by how the lock came to be free."))
	i.TermEnds, errs[9] = m.Int64Counter("election.term.ends", metric.WithUnit("{term}"),
		metric.WithDescription("Terms of this candidate that have ended, by why."))
	i.Overruns, errs[10] = m.Int64Counter("election.stop.overruns", metric.WithUnit("{overrun}"),
		metric.WithDescription("Terms whose work did not stop in the time that it had."))
	i.Refusals, errs[11] = m.Int64Counter("election.guard.refusals", metric.WithUnit("{write}"),
		metric.WithDescription("Writes of the work that a guard refused or cut off because their term was not trusted."))
	i.WatchRestarts, errs[12] = m.Int64Counter("election.watch.restarts", metric.WithUnit("{restart}"),
		metric.WithDescription("Watches that followed another one, by how that one ended."))
	i.Evacuated, errs[13] = m.Int64ObservableGauge("election.zone.evacuated", metric.WithUnit("{zone}"),
		metric.WithDescription("1 for each zone that leadership should leave now, by the record that this candidate has seen last."))
	i.Interruptions, errs[14] = m.Float64Histogram("election.interruption.duration", metric.WithUnit("s"),
		metric.WithDescription("For how long the work of this candidate stood because no renewal was answered, from its stop to its next beginning, if nobody else led meanwhile."),
		metric.WithExplicitBucketBoundaries(.25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800))
	return &i, errors.Join(errs[:]...)
}

// WatchReplaced is the KeyResult of a watch that was ended because another was wanted.
const WatchReplaced = "replaced"

// Result is the outcome of a request or a watch in one word.
func Result(err error) string {
	var timeout interface{ Timeout() bool }
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, locks.ErrConflict):
		return "conflict"
	case errors.Is(err, locks.ErrVersionExpired):
		return "version_expired"
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

// Place returns the attributes of a lock except its name.
func Place(d locks.Description) []attribute.KeyValue {
	place := []attribute.KeyValue{KeyLockKind.String(d.Kind)}
	if d.Namespace != "" {
		place = append(place, KeyNamespace.String(d.Namespace))
	}
	return place
}
