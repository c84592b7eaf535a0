// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/plain"
)

// TestEachFieldOfTheElectorsConfigIsAnOptionOrSetHere keeps Options complete: every choice of
// a user about an elector is a field of the same name and type, and reaches the elector
// unchanged. A new field of election.Config must be an option or be set here.
func TestEachFieldOfTheElectorsConfigIsAnOptionOrSetHere(t *testing.T) {
	setHere := map[string]bool{
		"Lock": true, "Candidate": true, "StopAtLoss": true,
		"TakeoverDelay": true, "OnOverrun": true, "WatchZone": true, "WatchPeers": true, "ProcessLock": true,
	}
	var given election.Config
	_, o := inPod(t)
	o.Timing = election.Timing{LeaseDuration: time.Minute}
	o.WaitOnAbsent = true
	o.Health = election.Health{Check: func(context.Context) error { return nil }}
	o.TracerProvider, o.MeterProvider = tracenoop.NewTracerProvider(), metricnoop.NewMeterProvider()
	o.Logger = plain.Logger(funcr.New(func(string, string) {}, funcr.Options{}))
	if _, err := newElection(t.Context(), "lock", o, func(c *election.Config) { given = *c }, nil); err != nil {
		t.Fatal(err)
	}
	config, options := reflect.ValueOf(given), reflect.ValueOf(o)
	for _, field := range reflect.VisibleFields(config.Type()) {
		option := options.FieldByName(field.Name)
		switch got := config.FieldByIndex(field.Index); {
		case setHere[field.Name] && option.IsValid():
			t.Errorf("%s is an option, and set here too", field.Name)
		case setHere[field.Name]:
		case !option.IsValid():
			t.Errorf("%s of election.Config is neither an option nor set here", field.Name)
		case option.Type() != field.Type || option.IsZero() || fmt.Sprint(option) != fmt.Sprint(got):
			t.Errorf("%s is %v as an option, and %v for the elector", field.Name, option, got)
		}
	}
}
