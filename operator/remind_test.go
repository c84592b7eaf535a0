// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
	"github.com/zonelect/zonelect/locks/memory"
)

// TestAnOutageIsHeardOfNowAndThen, and only as long as it lasts.
func TestAnOutageIsHeardOfNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		ctx, cancel := context.WithCancel(t.Context())
		link := lockstest.NewFaulty(memory.New("lock"))
		link.Set(lockstest.Fault{Err: errors.New("503")})
		e, err := election.New(election.Config{Lock: link, Candidate: locks.Candidate{Identity: "a"}})
		if err != nil {
			t.Fatal(err)
		}
		transitions, done, over := e.Subscribe(ctx), make(chan struct{}), make(chan error)
		go func() {
			defer close(done)
			remind(log.logger(), transitions)
		}()
		go func() {
			over <- e.Run(ctx, func(ctx context.Context, _ election.Term) error { <-ctx.Done(); return nil })
		}()
		began := 0
		for _, step := range []struct {
			lasts time.Duration
			lines int
		}{{reminder - time.Second, 0}, {2 * time.Second, 1}, {12 * reminder, 12}} {
			time.Sleep(step.lasts)
			synctest.Wait()
			got := log.with("")
			if len(got)-began != step.lines {
				t.Errorf("%d lines in %v, want %d:\n%s", len(got)-began, step.lasts, step.lines, strings.Join(got, "\n"))
			}
			began = len(got)
		}
		if got := log.with(""); !strings.Contains(got[0], "503") {
			t.Errorf("it does not say why: %q", got[0])
		}
		link.Set(lockstest.Fault{})
		time.Sleep(time.Hour)
		if got := log.with(""); len(got) > began+1 {
			t.Errorf("the outage is over, and heard of: %q", got[began:])
		}
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
		<-done
	})
}
