// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rawapi_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/transport/live"
	"github.com/zonelect/zonelect/locks"
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

var errReset = errors.New("connection reset")

func TestTheFirstAnswerCountsHoweverSlow(t *testing.T) {
	const never = time.Hour
	for _, test := range []struct {
		name  string
		takes []time.Duration // each read
		errs  []error
		want  time.Duration // when there is an answer
		err   error
		reads int
	}{
		{"fast", []time.Duration{1}, nil, 1, nil, 1},
		{"slow", []time.Duration{9 * time.Second, never, never}, nil, 9 * time.Second, nil, 3},
		{"a dead connection", []time.Duration{never, time.Second}, nil, 3 * time.Second, nil, 2},
		{"two dead connections", []time.Duration{never, never, time.Second}, nil, 7 * time.Second, nil, 3},
		{"never", []time.Duration{never, never, never, never}, nil, 20 * time.Second, context.DeadlineExceeded, 4},
		{"an error at once", []time.Duration{1}, []error{errReset}, 1, errReset, 1},
		{"a connection that is reset late", []time.Duration{3 * time.Second, 2 * time.Second}, []error{errReset, nil}, 4 * time.Second, nil, 2},
		{"a late refusal", []time.Duration{never, time.Second}, []error{nil, locks.ErrForbidden}, 3 * time.Second, locks.ErrForbidden, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var reads atomic.Int32
				_, err := rawapi.Ask(t.Context(), 2*time.Second, 20*time.Second, func(ctx context.Context) (time.Duration, error) {
					i := int(reads.Add(1)) - 1
					var err error
					if i < len(test.errs) {
						err = test.errs[i]
					}
					return after(ctx, test.takes[i], err)
				})
				if took := time.Since(began); took != test.want || !errors.Is(err, test.err) || int(reads.Load()) != test.reads {
					t.Errorf("after %v and %d reads the answer is %v, want %v, %d and %v", took, reads.Load(), err, test.want, test.reads, test.err)
				}
			})
		})
	}
}

// TestWhatOvertakesAReadNeedsAConnectionThatHasLivedSince: also the second one that does.
func TestWhatOvertakesAReadNeedsAConnectionThatHasLivedSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		since := make(chan time.Time, 4)
		_, _ = rawapi.Ask(t.Context(), 2*time.Second, 20*time.Second, func(ctx context.Context) (time.Duration, error) {
			alive, _ := live.Wanted(ctx)
			since <- alive
			return after(ctx, time.Hour, nil)
		})
		for i, want := range []time.Time{{}, began, began.Add(2 * time.Second), began.Add(6 * time.Second)} {
			if got := <-since; !got.Equal(want) {
				t.Errorf("read %d needs a connection that was alive %v after the first, want %v", i, got.Sub(began), want.Sub(began))
			}
		}
	})
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
