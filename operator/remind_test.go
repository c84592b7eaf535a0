// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
	"github.com/zonelect/zonelect/locks/memory"
)

// TestAnOutageIsHeardOfNowAndThen: after a minute, and then after pauses that grow to ten, in one line
// for all locks of a process, and only as long as it lasts.
func TestAnOutageIsHeardOfNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		ctx, cancel := context.WithCancel(t.Context())
		feed, done := election.NewFeed(ctx), make(chan struct{})
		go func() {
			defer close(done)
			remind(log.logger(), feed.Transitions())
		}()
		var links []*lockstest.Faulty
		over := make(chan error)
		const n = 5
		for i := range n {
			link := lockstest.NewFaulty(memory.New(fmt.Sprint("lock-", i)))
			link.Set(lockstest.Fault{Err: errors.New("503")})
			links = append(links, link)
			e, err := election.New(election.Config{Lock: link, Candidate: locks.Candidate{Identity: "a"}})
			if err != nil {
				t.Fatal(err)
			}
			e.SubscribeTo(feed)
			go func() {
				over <- e.Run(ctx, func(ctx context.Context, _ election.Term) error { <-ctx.Done(); return nil })
			}()
		}
		began := 0
		for _, step := range []struct {
			lasts time.Duration
			lines int
		}{{59 * time.Second, 0}, {2 * time.Second, 1}, {119 * time.Second, 1}, {4 * time.Minute, 1}, {time.Hour, 6}} {
			time.Sleep(step.lasts)
			synctest.Wait()
			got := log.with("")
			if len(got)-began != step.lines {
				t.Errorf("%d lines in %v, want %d:\n%s", len(got)-began, step.lasts, step.lines, strings.Join(got, "\n"))
			}
			began = len(got)
		}
		if got := log.with(`"locks":5`); len(got) != began || !strings.Contains(got[0], "503") {
			t.Errorf("not one line for all locks: %q", got)
		}
		for _, link := range links {
			link.Set(lockstest.Fault{})
		}
		time.Sleep(time.Hour)
		if got := log.with(""); len(got) > began+1 {
			t.Errorf("the outage is over, and heard of: %q", got[began:])
		}
		cancel()
		for range n {
			if err := <-over; err != nil {
				t.Error(err)
			}
		}
		<-done
	})
}
