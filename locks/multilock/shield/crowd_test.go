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

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/multilock/internal/multilocktest"
	"github.com/zonelect/zonelect/locks/multilock/shield"
)

// distant is a slow connection to the API server.
type distant struct{ http.Handler }

func (d distant) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if sleep.For(r.Context(), 5*time.Millisecond) == nil {
		d.Handler.ServeHTTP(w, r)
	}
}

// join starts that many candidates at the given interval, beside a leader and its shield,
// and returns how long it took until all were among the shield's owners.
func join(s *multilocktest.Stage, n int, after time.Duration, change ...func(*shield.Config)) time.Duration {
	s.T.Helper()
	ctx, cancel := context.WithCancel(s.T.Context())
	var attending sync.WaitGroup
	s.T.Cleanup(func() { cancel(); attending.Wait() })
	began := time.Now()
	for i := range n {
		name := fmt.Sprintf("op-%03d", i)
		s.Runs(name)
		lock, _ := s.Shield(name, distant{s.Server}, change...)
		attending.Go(func() { _ = lock.Attend(ctx, func(locks.Permission) {}) })
		time.Sleep(after)
	}
	for owners(s) < n+1 && time.Since(began) < 10*time.Minute {
		time.Sleep(time.Millisecond)
		synctest.Wait()
	}
	return time.Since(began)
}

// owners is how many owners the ConfigMap has.
func owners(s *multilocktest.Stage) int {
	s.Server.Mu.Lock()
	defer s.Server.Mu.Unlock()
	owners, _ := s.Server.Objects[multilocktest.MapPath]["metadata"].(apitest.Object)["ownerReferences"].([]any)
	return len(owners)
}

// TestManyCandidatesJoinAShieldInFewUpdates: if each added only its own presence, all but
// one would get a conflict, again and again.
func TestManyCandidatesJoinAShieldInFewUpdates(t *testing.T) {
	for _, after := range []time.Duration{0, time.Millisecond} {
		for _, n := range []int{3, 20, 60} {
			t.Run(fmt.Sprint(n, " after ", after), func(t *testing.T) {
				multilocktest.Scenario(t, func(s *multilocktest.Stage) {
					s.Start("a").Leads()
					s.Forget()
					took := join(s, n, after)
					updates := s.Asked("update " + multilocktest.MapPath)
					s.T.Logf("%v, %d updates, %d reads", took, updates, s.Asked("get "+multilocktest.MapPath))
					if took > time.Duration(n)*after+2*time.Second || updates > n+n/3 {
						s.T.Errorf("they have joined after %v and %d updates", took, updates)
					}
					s.Shielded(n + 1)
				})
			})
		}
	}
}

// TestM2NobodyPutsInACandidateInModeLease: the shield would outlive the candidates that
// can lead under it.
func TestM2NobodyPutsInACandidateInModeLease(t *testing.T) {
	multilocktest.Scenario(t, func(s *multilocktest.Stage) {
		s.Start("a").Leads()
		s.PeersOf(s.Plain("plain"))
		s.Presence("plain")
		s.Start("b")
		s.Shielded(2)
	})
}
