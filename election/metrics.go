// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/zonelect/zonelect/election/internal/rules"
	"github.com/zonelect/zonelect/election/status"
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
	place []attribute.KeyValue                // the lock without its name
	lock  metric.MeasurementOption            // the lock
	name  metric.MeasurementOption            // the lock as client-go names it
	group attribute.KeyValue                  // the lock, or what names the candidates of several locks
	by    map[string]metric.MeasurementOption // place and a result
	phase func() (now string, all []string)   // nil without a migration
	check bool                                // the candidate's health is checked

	led atomic.Pointer[trust] // of the term whose work runs; nil if none does

	mu         sync.Mutex
	candidates map[string]int // by zone; nil while nothing is known
	evacuated  string         // as the record lists them
	illness    illness
	stopped    time.Time // when the work stopped that no answer let go on; zero if another reason ended it
}

// illness is for how long a candidate was unhealthy.
type illness struct {
	before time.Duration
	since  time.Time // when the present illness began; zero if it is healthy
}

func (i illness) lasted(now time.Time) time.Duration {
	if i.since.IsZero() {
		return i.before
	}
	return i.before + max(0, now.Sub(i.since)) // a collection may begin before an illness that it sees
}

// mostEvacuated is how many evacuated zones of a lock are told. People write the list, and each
// zone is a series.
const mostEvacuated = 20

// mostZones is how many zones of candidates are told, each of which makes a series of its own.
const mostZones = 20

// results are the results whose attributes are prepared, because each renewal has one.
var results = []string{"ok", "conflict", "timeout", "error"}

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
		by:          map[string]metric.MeasurementOption{},
		check:       c.Health.Check != nil,
	}
	for _, result := range results {
		m.by[result] = m.at(metrics.KeyResult.String(result))
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

// ofResult returns the attributes of a result.
func (m *meters) ofResult(result string) metric.MeasurementOption {
	if prepared, is := m.by[result]; is {
		return prepared
	}
	return m.at(metrics.KeyResult.String(result))
}

// start has the metrics exported at each collection until end is called.
func (m *meters) start(e *Elector, log logr.Logger) (end func()) {
	if m == nil {
		return func() {}
	}
	m.countFromZero()
	registration, err := e.config.MeterProvider.Meter(metrics.Scope).RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		m.observe(ctx, o, e.Term(), time.Now())
		return nil
	}, m.TimeLeft, m.Candidates, m.Phase, m.Evacuated, m.UnhealthyTime)
	if err != nil {
		log.Error(err, "cannot register some metrics")
	}
	return func() {
		if registration != nil {
			if err := registration.Unregister(); err != nil {
				log.Error(err, "cannot unregister metrics: they may be exported after the end")
			}
		}
		m.end(time.Now())
	}
}

// countFromZero makes the counters of transitions and of terms' ends exist before they count.
// Prometheus takes the first value of a series for where it began, so it would never see the
// first transition of a process, which is often the only one.
func (m *meters) countFromZero() {
	ctx := context.Background()
	for _, cause := range causes {
		m.Transitions.Add(ctx, 0, m.at(metrics.KeyCause.String(string(cause))))
	}
	m.countEnd(ctx, unanswered, 0)
	for _, end := range ends {
		m.countEnd(ctx, end.name, 0)
	}
}

func (m *meters) countEnd(ctx context.Context, end string, n int64) {
	m.TermEnds.Add(ctx, n, m.at(metrics.KeyEnd.String(end)))
}

// end forgets what is known only while Run runs.
func (m *meters) end(now time.Time) {
	m.unhealthy(false, now)
	m.leading(context.Background(), nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.candidates, m.evacuated = nil, ""
}

// observe tells what is true at this very moment. A term may have run out although the loop
// hangs, so it asks the trust itself.
func (m *meters) observe(ctx context.Context, o metric.Observer, term Term, now time.Time) {
	m.tellLeader(ctx)
	o.ObserveFloat64(m.TimeLeft, max(0, term.TrustedFor()).Seconds(), m.lock)
	zones, evacuated, ill := m.known(now)
	for zone, n := range zones {
		o.ObserveInt64(m.Candidates, int64(n), m.ofZone(zone))
	}
	for _, zone := range evacuated {
		o.ObserveInt64(m.Evacuated, 1, m.lock, metric.WithAttributes(metrics.KeyEvacuatedZone.String(zone)))
	}
	if m.check {
		o.ObserveFloat64(m.UnhealthyTime, ill.Seconds(), m.lock)
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

// known returns the candidates by zone, in a map that is the caller's, the zones that are
// evacuated, and for how long this candidate was unhealthy.
func (m *meters) known(now time.Time) (zones map[string]int, evacuated []string, ill time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	evacuated = rules.Evacuated(m.evacuated, now)
	return maps.Clone(m.candidates), evacuated[:min(len(evacuated), mostEvacuated)], m.illness.lasted(now)
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

// know notes which candidates there are. A zone that had one is told as long as Run runs. Anybody
// who may create a Lease can invent zones: candidates of more than mostZones count as those whose
// zone is unknown.
func (m *meters) know(peers []locks.Peer) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.candidates == nil {
		m.candidates = map[string]int{}
	}
	for zone := range m.candidates {
		m.candidates[zone] = 0
	}
	for _, p := range peers {
		zone := p.Zone
		if _, known := m.candidates[zone]; !known && len(m.candidates) >= mostZones {
			zone = ""
		}
		m.candidates[zone]++
	}
}

// evacuate notes which zones leadership should leave. An evacuation may end by itself, so which
// of them are in force is decided when it is told.
func (m *meters) evacuate(listed string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.evacuated = listed
}

// unhealthy notes whether this candidate is unhealthy by its own check.
func (m *meters) unhealthy(is bool, now time.Time) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.illness
	if m.illness = (illness{before: was.lasted(now)}); is {
		m.illness.since = now
	}
}

// renewed counts the answer to a renewal.
func (m *meters) renewed(ctx context.Context, took time.Duration, err error) {
	if m != nil {
		m.Renewals.Record(ctx, took.Seconds(), m.ofResult(metrics.Result(err)))
	}
}

// failedOver counts a takeover of this candidate. ctx is inside its span.
func (m *meters) failedOver(ctx context.Context, took time.Duration, where ...attribute.KeyValue) {
	if m != nil {
		m.Failovers.Record(ctx, took.Seconds(), m.at(where...))
	}
}

// unknownCause is the cause of a transition that this candidate has seen the end of only.
const unknownCause = "unknown"

// causes are all causes of transitions.
var causes = []status.Cause{
	status.CauseExpired, status.CauseReleased, status.CauseAbsent, status.CauseDeleted,
	status.CauseCleared, status.CauseDied, status.CauseReclaimed, unknownCause,
}

func (m *meters) sawTransition(ctx context.Context, cause status.Cause) {
	if m != nil {
		m.Transitions.Add(ctx, 1, m.at(metrics.KeyCause.String(string(cmp.Or(cause, unknownCause)))))
	}
}

// unanswered is the end of a term whose renewals had no answer.
const unanswered = "unanswered"

// ends names the causes of other ends, as context.Cause of the work's context reports them.
var ends = []struct {
	cause error
	name  string
}{
	{ErrLost, "lost"},
	{ErrResigned, "resigned"},
	{ErrHandedOver, "handed_over"},
	{ErrUnhealthy, "unhealthy"},
	{ErrWithdrawn, "withdrawn"},
	{ErrStopped, "stopped"},
	{ErrReturned, "returned"},
}

// termEnded counts a term whose work has stopped.
func (m *meters) termEnded(ctx context.Context, cause error, now time.Time) {
	if m == nil {
		return
	}
	if lost := (*lostError)(nil); errors.As(cause, &lost) && lost.unanswered {
		m.countEnd(ctx, unanswered, 1)
		m.setStopped(now)
		return
	}
	for _, end := range ends {
		if errors.Is(cause, end.cause) {
			m.countEnd(ctx, end.name, 1)
			return
		}
	}
}

// began counts for how long the work stood, if the term follows this candidate's own.
func (m *meters) began(ctx context.Context, t Term, now time.Time) {
	if m == nil {
		return
	}
	if stopped := m.setStopped(time.Time{}); !stopped.IsZero() && t.Previous == t.Holder {
		m.Interruptions.Record(ctx, now.Sub(stopped).Seconds(), m.at())
	}
}

func (m *meters) setStopped(at time.Time) (before time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, m.stopped = m.stopped, at
	return before
}

func (m *meters) overran(ctx context.Context) {
	if m != nil {
		m.Overruns.Add(ctx, 1, m.lock)
	}
}

func (m *meters) refused(ctx context.Context) {
	if m != nil {
		m.Refusals.Add(ctx, 1, m.lock)
	}
}

// watchRestarted counts a watch that follows one which ended like that.
func (m *meters) watchRestarted(ctx context.Context, after string) {
	if m != nil {
		m.WatchRestarts.Add(ctx, 1, m.ofResult(after))
	}
}
