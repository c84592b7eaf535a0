// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rawapi_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/transport/live"
)

// after answers after so long, or when ctx ends.
func after(ctx context.Context, d time.Duration, err error) (time.Duration, error) {
	select {
	case <-time.After(d):
		return d, err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// TestASlowAnswerIsWaitedFor, on a connection that is alive.
func TestASlowAnswerIsWaitedFor(t *testing.T) {
	for takes, want := range map[time.Duration]error{9 * time.Second: nil, time.Hour: context.DeadlineExceeded} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			_, err := rawapi.Ask(t.Context(), 20*time.Second, func(ctx context.Context) (time.Duration, error) {
				if since, _ := live.Wanted(ctx); !since.Equal(began) {
					t.Errorf("a connection will do that was alive at %v", since)
				}
				return after(ctx, takes, nil)
			})
			if took := time.Since(began); took != min(takes, 20*time.Second) || !errors.Is(err, want) {
				t.Errorf("an answer that takes %v: %v after %v", takes, err, took)
			}
		})
	}
}

func TestALimitFollowsTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := rawapi.NewLimit(2*time.Second, 10*time.Second)
		try := func(takes time.Duration) bool {
			ctx, done := l.Of(t.Context(), 1)
			defer done()
			_, err := after(ctx, takes, nil)
			return err == nil
		}
		const seven = 7 * time.Second
		for i, step := range []struct {
			takes time.Duration
			want  bool
		}{{time.Second, true}, {seven, false}, {seven, false}, {seven, true}, {seven, true}, {1, true}, {1, true}, {5 * time.Second, false}} {
			if got := try(step.takes); got != step.want {
				t.Errorf("request %d, which takes %v: %v", i, step.takes, got)
			}
		}
		began := time.Now()
		for range 5 {
			try(time.Hour)
		}
		if took := time.Since(began); took != (4+8+10+10+10)*time.Second {
			t.Errorf("five requests without an answer took %v", took)
		}
	})
}
