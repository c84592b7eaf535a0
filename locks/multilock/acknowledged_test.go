// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/locks/multilock/internal/multilocktest"
)

// TestS1AWriteThatChangedNothingRenewsNoTerm: a cache before the API server answers updates that it has
// not sent on, and admission may undo each change. Whoever took that for a renewal would lead for ever
// beside the next leader. Nor is it an acquisition, which would be sent again without a pause.
func TestS1AWriteThatChangedNothingRenewsNoTerm(t *testing.T) {
	multilocktest.Scenario(t, func(s *multilocktest.Stage) {
		const path = multilocktest.LeasesPath + "/lock"
		a := s.StartPlain("a")
		a.Leads()
		time.Sleep(time.Minute)
		s.Server.Mu.Lock()
		before := s.Server.Before
		s.Server.Before = func(verb, at string) (int, apitest.Object) {
			if verb == "update" && at == path {
				_, _ = before(verb, at) // it counts
				return http.StatusOK, s.Server.Objects[path]
			}
			return before(verb, at)
		}
		s.Server.Mu.Unlock()
		took, cause := a.Loses()
		if !errors.Is(cause, election.ErrLost) || took > timing.DefaultRenewDeadline {
			t.Errorf("the term ended after %v with %v", took, cause)
		}
		s.Forget()
		time.Sleep(time.Minute)
		a.Idles()
		if n := s.Asked("update"); n == 0 || n > 120 {
			t.Errorf("%d acquisitions were tried in a minute", n)
		}
		s.Server.Mu.Lock()
		s.Server.Before = before
		s.Server.Mu.Unlock()
		a.Leads()
	})
}

func TestS5AReleaseThatChangedNothingIsNotReportedAsReleased(t *testing.T) {
	multilocktest.Scenario(t, func(s *multilocktest.Stage) {
		a := s.StartPlain("a")
		a.Leads()
		s.Server.StoreNothing()
		if err := a.Resign(s.T.Context()); !errors.Is(err, election.ErrNotReleased) || s.Holder() != "a" {
			t.Errorf("Resign: %v, and the holder is %q", err, s.Holder())
		}
	})
}
