// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package leaseonly_test

import (
	"errors"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks/multilock/internal/candidate"
	"github.com/zonelect/zonelect/locks/multilock/internal/multilocktest"
	"github.com/zonelect/zonelect/locks/ownerref"
)

func TestM12ACandidateThatKnowsTheLeaseAloneDoesNotMix(t *testing.T) {
	multilocktest.Scenario(t, func(s *multilocktest.Stage) {
		a := s.Start("a")
		a.Leads()
		plain := s.StartPlain("plain")
		s.Waits(plain, "dual")
		s.Server.Delete(multilocktest.PodsPath + "a")
		a.Stop()
		s.Waits(plain, "dual")
		s.Server.Delete(multilocktest.MapPath) // by the collector
		s.Phase("sealed", 2)
		plain.Leads()
		s.Phase("dual", 3)
		if _, cause := plain.Loses(); !errors.Is(cause, election.ErrWithdrawn) {
			t.Errorf("the cause is %v", cause)
		}
	})
	multilocktest.Scenario(t, func(s *multilocktest.Stage) {
		s.Runs("old")
		s.Holds("old")
		plain := s.StartPlain("plain")
		s.Waits(plain, "old")
		s.Server.Delete(multilocktest.MapPath)
		plain.Leads()
	})
}

func TestM12ACandidateThatKnowsTheLeaseAloneWaitsUntilTheShieldIsSealed(t *testing.T) {
	multilocktest.Scenario(t, func(s *multilocktest.Stage) {
		a := s.Start("a")
		a.Leads()
		s.RefuseTo("update", multilocktest.MapPath)
		s.Phase("sealed", 2)
		plain := s.StartPlain("plain")
		a.Stop()
		s.Waits(plain, "not sealed")
		s.RefuseTo("", "")
		b := s.Start("b")
		b.Leads()
		if r := s.ConfigMap(); r.Kind != ownerref.Sealed {
			t.Errorf("there stands %+v", r)
		}
		b.Stop()
		plain.Leads()
	})
	multilocktest.Scenario(t, func(s *multilocktest.Stage) {
		a := s.Start("a")
		a.Leads()
		a.Stop()
		_ = a.Wait()
		s.Server.Delete(multilocktest.LeasePath) // and the phase with it
		plain := s.StartPlain("plain")
		s.Waits(plain, "not sealed")
		s.Server.Delete(multilocktest.MapPath)
		plain.Leads()
	})
	multilocktest.Scenario(t, func(s *multilocktest.Stage) {
		a := s.Start("a")
		a.Leads()
		a.Stop()
		s.Phase("sealed", 2)
		s.RefuseTo("get", multilocktest.MapPath)
		s.StartPlain("plain").Leads()
	})
}

// TestM12NobodyOnTheLeaseAloneTakesItAtAVersionThatForbidsIt: the first read may return
// before the guardian reports.
func TestM12NobodyOnTheLeaseAloneTakesItAtAVersionThatForbidsIt(t *testing.T) {
	multilocktest.Scenario(t, func(s *multilocktest.Stage) {
		a := s.Start("a")
		a.Leads()
		a.Stop()
		_ = a.Wait()
		plain := s.Plain("plain")
		for step, phase := range []string{"dual", "legacy", "sealed"} {
			s.Phase(phase, step+2)
			now, err := plain.Read(s.T.Context())
			if err != nil {
				t.Fatal(err)
			}
			now.Record.Holder, now.Record.LeaseDuration = "plain", 15*time.Second
			if _, err := plain.Write(s.T.Context(), now.Version, now.Record); errors.Is(err, candidate.ErrPhase) == (phase == "sealed") {
				t.Errorf("in phase %s it wrote, with %v", phase, err)
			}
		}
	})
}
