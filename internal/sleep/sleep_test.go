// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sleep_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/internal/sleep"
)

func TestForLastsAsLongAsItSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, d := range []time.Duration{-time.Second, 0, time.Second, time.Hour} {
			began := time.Now()
			if err := sleep.For(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != max(d, 0) {
				t.Errorf("%v took %v", d, took)
			}
		}
	})
}

func TestForEndsWithItsContext(t *testing.T) {
	cause := errors.New("enough")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(cause) })
		if err := sleep.For(ctx, time.Hour); !errors.Is(err, cause) {
			t.Error(err)
		}
	})
}

// With timers that are due, this crashes under the race detector on two
// processors and more (the comment at After).
func TestManyMayWaitForNothingAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 100_000 {
					if sleep.For(t.Context(), 0) != nil {
						return
					}
				}
			})
		}
		all.Wait()
	})
}
