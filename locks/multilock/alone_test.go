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
			if (now.Barred == "") != (phase == "sealed") {
				t.Errorf("in phase %s it is barred by %q", phase, now.Barred)
			}
		}
	})
}

// slowly answers requests for a ConfigMap as late as it is told.
func slowly(s *multilocktest.Stage, late func(n int) time.Duration) func(*multilock.Config) {
	var n atomic.Int32
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != multilocktest.MapPath { // this pod
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

// TestM12ASlowServerIsAsked until it answers: it is not a dead one. A connection may be dead, so
// others are tried meanwhile.
func TestM12ASlowServerIsAsked(t *testing.T) {
	const never = 24 * time.Hour
	constant := func(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }
	once := func(first, then time.Duration) func(int) time.Duration {
		return func(n int) time.Duration {
			if n == 1 {
				return first
			}
			return then
		}
	}
	for name, tc := range map[string]struct {
		late func(n int) time.Duration
		want time.Duration // until it leads; negative for never
	}{
		"slow":            {constant(3 * time.Second), 3 * time.Second},
		"dead connection": {once(never, 0), 2 * time.Second},
		"dead server":     {constant(never), -1},
	} {
		t.Run(name, func(t *testing.T) {
			multilocktest.Scenario(t, func(s *multilocktest.Stage) {
				began := time.Now()
				plain := s.StartPlain("plain", slowly(s, tc.late))
				if tc.want < 0 {
					s.Waits(plain, "deadline exceeded")
					return
				}
				time.Sleep(tc.want)
				plain.Leads()
				if took := time.Since(began); took != tc.want {
					t.Errorf("it leads after %v, want %v", took, tc.want)
				}
			})
		})
	}
}

// TestM12APhaseThatChangesDuringALookCounts: the look takes long.
func TestM12APhaseThatChangesDuringALookCounts(t *testing.T) {
	for phase, why := range map[string]string{"dual": "dual", "sealed": "not sealed"} {
		t.Run(phase, func(t *testing.T) {
			multilocktest.Scenario(t, func(s *multilocktest.Stage) {
				a := s.Start("a")
				a.Leads()
				a.Stop()
				_ = a.Wait()
				shield := apitest.Clone(s.Server.Objects[multilocktest.MapPath])
				s.Server.Delete(multilocktest.MapPath)
				s.Phase("sealed", 2)
				plain := s.StartPlain("plain", slowly(s, func(n int) time.Duration {
					if n == 1 { // it finds nothing, late
						return 1900 * time.Millisecond
					}
					return 0
				}))
				time.Sleep(time.Second)
				s.Server.Put(multilocktest.MapPath, shield)
				s.Phase(phase, 4) // if it is sealed, phase dual was missed
				s.Waits(plain, why)
			})
		})
	}
}
