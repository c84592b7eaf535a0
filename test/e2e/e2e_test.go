// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/test/testbed"
	"github.com/zonelect/zonelect/test/trial"
)

// lease is the LeaseDuration of all trials.
const lease = election.LeaseDurationDefault

func patience(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, b *testbed.Testbed, zone, lock, identity string, args ...string) *trial.Seat {
	t.Helper()
	s, err := trial.Start(t.Context(), b, trial.Zonelect, zone, lock, identity, args...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// awaitRenewal waits for two renewals, so that the next is not near.
func awaitRenewal(t *testing.T, ctx context.Context, o *trial.Observer) {
	t.Helper()
	nextRenewal(t, ctx, o, nextRenewal(t, ctx, o, o.Last()))
}

func nextRenewal(t *testing.T, ctx context.Context, o *trial.Observer, last trial.Renewal) trial.Renewal {
	t.Helper()
	for {
		if now := o.Last(); now.Seen.After(last.Seen) {
			return now
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("no renewal after %v", last.Seen)
		}
	}
}

// fromEnv is a number that the environment may set.
func fromEnv(t *testing.T, name string, otherwise int) int {
	t.Helper()
	value, set := os.LookupEnv(name)
	if !set {
		return otherwise
	}
	n, err := strconv.Atoi(value)
	must(t, err)
	return n
}
