// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main_test

import (
	"context"
	"math"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

func TestMain(m *testing.M) {
	code := m.Run()
	report.print(os.Stdout)
	os.Exit(code)
}

// bed starts one apiserver that ends with the test.
func bed(t *testing.T) *testbed.Testbed {
	t.Helper()
	return trial.Bed(t, testbed.Config{
		Zones: []string{"za"}, Network: testbed.Links,
		WithoutControllers: true, WithoutNodes: true,
	})
}

// patience ends a test that hangs. It is not a measurement.
func patience(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// measure takes one measurement of something that continues between
// measurements.
type measure func(ctx context.Context) (time.Duration, error)

// inParallel runs all measures at once, and takes that many measurements of
// each.
func inParallel(t *testing.T, ctx context.Context, each int, all []measure) []time.Duration {
	var (
		wait  sync.WaitGroup
		mu    sync.Mutex
		taken []time.Duration
	)
	for _, m := range all {
		wait.Go(func() {
			for range each {
				d, err := m(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				taken = append(taken, d)
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	return taken
}

// percentile is the nearest rank; it sorts all.
func percentile(all []time.Duration, p float64) time.Duration {
	slices.Sort(all)
	return all[max(0, int(math.Ceil(p*float64(len(all))))-1)]
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
