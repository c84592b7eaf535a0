// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/locks"
)

func TestOneProbeProvesTheDeathOfAHolderOfManyLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		ended := make(chan struct{})
		d := deaths{prove: func(ctx context.Context, _ locks.Suspect) error {
			asked.Add(1)
			select {
			case <-ended:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		began := time.Now()
		holder := func(acquired time.Duration) locks.Suspect {
			return locks.Suspect{Acquired: began.Add(acquired), Details: locks.Details{Pod: locks.Pod{Name: "p", UID: "u"}, ProcessID: locks.ProcessID{ContainerID: "c"}}}
		}
		ctx, cancel := context.WithCancel(t.Context())
		given := make(chan error, 1)
		go func() { given <- d.dead(ctx, holder(0)) }()
		results := make(chan error, 100)
		for range 100 {
			go func() { results <- d.dead(t.Context(), holder(0)) }()
		}
		synctest.Wait()
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times about one process", n)
		}
		go func() { results <- d.dead(t.Context(), holder(time.Second)) }() // it was alive later than the first probe asks
		synctest.Wait()
		if n := asked.Load(); n != 2 {
			t.Errorf("asked %d times when a lock was acquired later", n)
		}
		cancel()
		if err := <-given; !errors.Is(err, context.Canceled) {
			t.Errorf("who left got %v", err)
		}
		close(ended)
		for range 101 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		if len(d.probes) > 0 {
			t.Errorf("%d probes are left", len(d.probes))
		}
	})
}
