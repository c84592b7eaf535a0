// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/memory"
)

// report makes all calls that a loop may make again and again.
func report(ctx context.Context, m *meters, err error) {
	m.renewed(ctx, time.Second, err)
	m.know(nil)
	m.leading(ctx, nil)
	m.overran(ctx)
}

func TestMetricsThatNobodyWantsCostNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	m, err := newMeters(Config{Lock: memory.New("lock"), Candidate: locks.Candidate{Identity: "me"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, broken := t.Context(), errors.New("broken")
	if n := testing.AllocsPerRun(1000, func() { report(ctx, m, broken) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	m.start(&Elector{}, logr.Discard())()
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines, %d before", after, before)
	}
}
