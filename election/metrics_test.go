// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metricnoop "go.opentelemetry.io/otel/metric/noop"

	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/internal/evacuations"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/memory"
)

// report makes all calls that a loop may make again and again.
func report(ctx context.Context, m *meters, err error) {
	m.renewed(ctx, time.Second, err)
	m.sawTransition(ctx, status.CauseExpired)
	m.watchRestarted(ctx, "ok")
	m.know(nil)
	m.unhealthy(false, time.Time{})
	m.leading(ctx, nil)
	m.refused(ctx)
}

func metersOf(t testing.TB, change ...func(*Config)) *meters {
	c := Config{Lock: memory.New("lock"), Candidate: locks.Candidate{Identity: "me"}}
	for _, f := range change {
		f(&c)
	}
	m, err := newMeters(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMetricsThatNobodyWantsCostNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	m, ctx, broken := metersOf(t), t.Context(), errors.New("broken")
	if n := testing.AllocsPerRun(1000, func() { report(ctx, m, broken) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	m.start(&Elector{}, logr.Discard())()
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines, %d before", after, before)
	}
}

// TestTheTimeOfAnIllnessNeverFalls: a collection may ask for a moment before it began. A counter
// that falls counts from zero again.
func TestTheTimeOfAnIllnessNeverFalls(t *testing.T) {
	m, began := metersOf(t, func(c *Config) { c.MeterProvider = metricnoop.NewMeterProvider() }), time.Now()
	m.unhealthy(true, began)
	m.unhealthy(false, began.Add(time.Minute))
	m.unhealthy(true, began.Add(time.Hour))
	if _, _, ill := m.known(began.Add(time.Hour - time.Microsecond)); ill != time.Minute {
		t.Errorf("it was ill for %s, want 1m", ill)
	}
}

// TestNoMoreEvacuatedZonesAreToldThanThereMayBe, whatever somebody wrote into the record.
func TestNoMoreEvacuatedZonesAreToldThanThereMayBe(t *testing.T) {
	m := metersOf(t, func(c *Config) { c.MeterProvider = metricnoop.NewMeterProvider() })
	var all []evacuations.Evacuation
	for i := range 10_000 {
		all = append(all, evacuations.Evacuation{Zone: fmt.Sprint("z", i)})
	}
	for n, want := range map[int]int{0: 0, 3: 3, mostEvacuated: mostEvacuated, len(all): mostEvacuated} {
		m.evacuate(evacuations.Format(all[:n]))
		if _, told, _ := m.known(time.Now()); len(told) != want {
			t.Errorf("of %d zones %d are told, want %d", n, len(told), want)
		}
	}
}

// TestNoMoreZonesOfCandidatesAreToldThanThereMayBe, whatever zones somebody invents, one after
// the other.
func TestNoMoreZonesOfCandidatesAreToldThanThereMayBe(t *testing.T) {
	m := metersOf(t, func(c *Config) { c.MeterProvider = metricnoop.NewMeterProvider() })
	for i := range 1000 {
		m.know([]locks.Peer{{Candidate: locks.Candidate{Zone: "za"}}, {Candidate: locks.Candidate{Zone: fmt.Sprint("z", i)}}})
		zones, _, _ := m.known(time.Now())
		total := 0
		for _, n := range zones {
			total += n
		}
		if len(zones) > mostZones+1 || total != 2 || zones["za"] != 1 {
			t.Fatalf("after %d zones it tells of %v", i, zones)
		}
	}
}
