// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package shield_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/multilock/internal/multilocktest"
)

// distant is a slow connection to the API server.
type distant struct{ http.Handler }

func (d distant) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if sleep.For(r.Context(), 5*time.Millisecond) == nil {
		d.Handler.ServeHTTP(w, r)
	}
}

// join starts that many candidates beside a leader and its shield, and returns how long it took until all were
// among the shield's owners.
func join(s *multilocktest.Stage, n int) time.Duration {
	ctx, cancel := context.WithCancel(s.T.Context())
	var attending sync.WaitGroup
	s.T.Cleanup(func() { cancel(); attending.Wait() })
	began := time.Now()
	for i := range n {
		name := fmt.Sprintf("op-%03d", i)
		s.Runs(name)
		lock := s.Shield(name, distant{s.Server})
		attending.Go(func() { _ = lock.Attend(ctx, func(locks.Permission) {}) })
	}
	for len(s.ConfigMap().Presences) < n+1 && time.Since(began) < 10*time.Minute {
		time.Sleep(time.Millisecond)
		synctest.Wait()
	}
	return time.Since(began)
}

// TestManyCandidatesJoinAShieldInFewUpdates: if each added only its own presence, all but
// one would get a conflict, again and again.
func TestManyCandidatesJoinAShieldInFewUpdates(t *testing.T) {
	for _, n := range []int{3, 60} {
		multilocktest.Scenario(t, func(s *multilocktest.Stage) {
			s.Start("a").Leads()
			s.Forget()
			took := join(s, n)
			if updates := s.Asked("update " + multilocktest.MapPath); took > 2*time.Second || updates > n+n/3 {
				t.Errorf("%d have joined after %v and %d updates", n, took, updates)
			}
			shielded(s, n+1)
		})
	}
}
