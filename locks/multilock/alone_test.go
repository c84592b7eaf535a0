// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/ownerref"
)

func TestM12ACandidateThatKnowsTheLeaseAloneDoesNotMix(t *testing.T) {
	Scenario(t, func(s *Stage) {
		a := s.Leader("a")
		plain := s.StartPlain("plain")
		s.Waits(plain, "dual")
		s.Server.Delete(PodsPath + "a")
		a.Stop()
		s.Waits(plain, "dual")
		s.Server.Delete(MapPath) // by the collector
		s.Phase("sealed", 2)
		plain.Leads()
		s.Phase("dual", 3)
		if _, cause := plain.Loses(); !errors.Is(cause, election.ErrWithdrawn) {
			t.Errorf("the cause is %v", cause)
		}
	})
	Scenario(t, func(s *Stage) {
		s.Holds("old")
		plain := s.StartPlain("plain")
		s.Waits(plain, "old")
		s.Server.Delete(MapPath)
		plain.Leads()
	})
}

func TestM12ACandidateThatKnowsTheLeaseAloneWaitsUntilTheShieldIsSealed(t *testing.T) {
	Scenario(t, func(s *Stage) {
		a := s.Leader("a")
		s.RefuseTo("update", MapPath)
		s.Phase("sealed", 2)
		plain := s.StartPlain("plain")
		a.Stop()
		s.Waits(plain, "not sealed")
		s.Refuses(nil)
		b := s.Leader("b")
		s.Stands(ownerref.Sealed)
		b.Stop()
		plain.Leads()
	})
	Scenario(t, func(s *Stage) {
		a := s.Leader("a")
		a.Ends()
		s.Server.Delete(LeasePath) // and the phase with it
		plain := s.StartPlain("plain")
		s.Waits(plain, "not sealed")
		s.Server.Delete(MapPath)
		plain.Leads()
	})
	Scenario(t, func(s *Stage) {
		a := s.Leader("a")
		a.Stop()
		s.Phase("sealed", 2)
		s.RefuseTo("get", MapPath)
		s.StartPlain("plain").Leads()
	})
}

// slowly answers requests for a ConfigMap as late as it is told.
func slowly(s *Stage, late func(n int) time.Duration) func(*multilock.Config) {
	var n atomic.Int32
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != MapPath { // this pod
			s.Server.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		s.Server.ServeHTTP(answer, r)
		select {
		case <-time.After(late(int(n.Add(1)))):
			apitest.Reply(w, answer.Code, json.RawMessage(answer.Body.Bytes()))
		case <-r.Context().Done():
		}
	})
	return func(c *multilock.Config) { c.Core = apitest.Wire(s.T, h, corev1.SchemeGroupVersion) }
}

// TestM12ASlowServerIsAsked until it answers: it is not a dead one.
func TestM12ASlowServerIsAsked(t *testing.T) {
	Scenario(t, func(s *Stage) {
		plain := s.StartPlain("plain", slowly(s, func(int) time.Duration { return 3 * time.Second }))
		if _, took := plain.Leads(); took != 3*time.Second {
			t.Errorf("it leads after %v", took)
		}
	})
}

// TestM12ALookThatFailedIsRepeated: a server may be away when a candidate starts.
func TestM12ALookThatFailedIsRepeated(t *testing.T) {
	Scenario(t, func(s *Stage) {
		s.StartPlain("plain", slowly(s, func(n int) time.Duration { return max(0, 2-time.Duration(n)) * time.Hour })).Leads()
	})
}

// TestM12APhaseThatChangesDuringALookCounts: the look takes long.
func TestM12APhaseThatChangesDuringALookCounts(t *testing.T) {
	for phase, why := range map[string]string{"dual": "dual", "sealed": "not sealed"} {
		t.Run(phase, func(t *testing.T) {
			Scenario(t, func(s *Stage) {
				a := s.Leader("a")
				a.Ends()
				shield := apitest.Clone(s.Server.Objects[MapPath])
				s.Server.Delete(MapPath)
				s.Phase("sealed", 2)
				plain := s.StartPlain("plain", slowly(s, func(n int) time.Duration {
					if n == 1 { // it finds nothing, late
						return 1900 * time.Millisecond
					}
					return 0
				}))
				time.Sleep(time.Second)
				s.Server.Put(MapPath, shield)
				s.Phase(phase, 4) // if it is sealed, phase dual was missed
				s.Waits(plain, why)
			})
		})
	}
}
