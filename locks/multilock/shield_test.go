// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/multilock/shield"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// losesToLegacy checks that c's term ends within most, because its legacy lock was lost.
func losesToLegacy(s *Stage, c *Seat, most time.Duration) {
	s.T.Helper()
	if took, cause := c.Loses(); took > most || !errors.Is(cause, shield.ErrLegacy) {
		s.T.Errorf("the term ended after %v: %v", took, cause)
	}
}

// shielded checks that an armed shield with that many presences exists.
func shielded(s *Stage, presences int) {
	s.T.Helper()
	if r := s.ConfigMap(); r.Kind != ownerref.Shield || !r.Armed || len(r.Presences) != presences {
		s.T.Errorf("there stands %+v, want an armed shield of %d presences", r, presences)
	}
}

// phaseIs checks that the Lease carries that phase.
func phaseIs(s *Stage, want record.Phase) {
	s.T.Helper()
	if got := record.StageOf(s.OnLease().Version).Phase; got != want {
		s.T.Errorf("the phase on the Lease is %v, want %s", got, want)
	}
}

func TestAnIdleCandidateOfAMigrationAsksForNothing(t *testing.T) {
	Scenario(t, func(s *Stage) {
		s.Start("a").Leads()
		s.Start("b")
		time.Sleep(time.Second)
		s.Forget()
		time.Sleep(4 * time.Minute)
		if writes, all := s.Asked("update "+LeasePath), s.Asked(""); writes < 119 || all-writes > 8 {
			t.Errorf("%d renewals and %d other requests in four minutes: %v", writes, all-writes, s.Sent)
		}
	})
}

func TestACandidateWaitsForTheLegacyLeaderAndLeadsWhenItsPodIsGone(t *testing.T) {
	Scenario(t, func(s *Stage) {
		s.Holds("old")
		a := s.Start("a")
		s.Waits(a, "old")
		s.Stands(ownerref.Legacy)
		s.Server.Delete(PodsPath + "old")
		if _, took := a.Leads(); took > 6*time.Second {
			t.Errorf("a leads %v after the legacy pod was gone", took)
		}
		shielded(s, 1)
	})
}

func TestM8ATermEndsWhereTheShieldCannotBeMadeAgain(t *testing.T) {
	Scenario(t, func(s *Stage) {
		a := s.Leader("a")
		s.RefuseTo("create", MapsPath)
		s.Server.Delete(MapPath)
		losesToLegacy(s, a, 0)
	})
}

// slow delays requests that create ConfigMaps by a second, and drops one if its client
// gives up.
type slow struct{ http.Handler }

func (l slow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		select {
		case <-time.After(time.Second):
		case <-r.Context().Done():
			return
		}
	}
	l.Handler.ServeHTTP(w, r)
}

// TestM3WhatAHolderSendsEndsWithItsTerm: another may hold the Lease when the request
// lands.
func TestM3WhatAHolderSendsEndsWithItsTerm(t *testing.T) {
	Scenario(t, func(s *Stage) {
		a := s.Start("a", func(c *shield.Config) {
			c.Core = apitest.Wire(s.T, slow{s.Server}, corev1.SchemeGroupVersion)
		})
		term, _ := a.Leads()
		a.Way.Cut.Store(true)
		time.Sleep(term.TrustedFor() - time.Second/2)
		s.Server.Delete(MapPath)
		a.Loses()
		time.Sleep(5 * time.Second)
		s.Stands(ownerref.Absent)
	})
}

func TestASealOutlivesTheLease(t *testing.T) {
	Scenario(t, func(s *Stage) {
		a := s.Leader("a")
		s.Phase("sealed", 2)
		a.Stays()
		s.Stands(ownerref.Sealed)
		s.Server.Delete(LeasePath)
		synctest.Wait()
		a.Stays()
		phaseIs(s, "sealed")
		a.Ends()
		s.Server.Delete(LeasePath)
		s.Leader("b")
		phaseIs(s, "sealed")
	})
}

func TestARollbackGivesTheShieldBackToAllPresencesThatKeepOne(t *testing.T) {
	Scenario(t, func(s *Stage) {
		a := s.Leader("a")
		s.Phase("sealed", 2)
		s.Start("b")
		s.StartPlain("plain")
		if n := len(s.Presences()); n != 3 {
			t.Fatalf("there are %d presences", n)
		}
		s.Phase("dual", 3)
		a.Stays()
		shielded(s, 2) // the presence of mode lease would keep it up when the others have rolled back
	})
}

// TestACandidateInModeLeaseIsNoLegacyPod: it does not know the ConfigMap, and the Lease
// decides between it and the candidates that do.
func TestACandidateInModeLeaseIsNoLegacyPod(t *testing.T) {
	Scenario(t, func(s *Stage) {
		plain := s.StartPlain("plain")
		plain.Leads()
		a := s.Start("a")
		a.Idles() // the Lease is held
		plain.Stop()
		if _, took := a.Leads(); took != 5*time.Second {
			t.Errorf("a leads %v after the release", took)
		}
		shielded(s, 1)
		again := s.StartPlain("plain")
		s.Waits(again, "dual")
		s.Runs("old") // beside them
		a.Stop()
		b := s.Start("b")
		b.Leads() // M6: no new list under an armed shield
		shielded(s, 2)
	})
	Scenario(t, func(s *Stage) {
		s.Holds("old")
		s.StartPlain("old") // in the same pod as the legacy leader
		s.Waits(s.Start("a"), "old")
	})
}

func TestAShieldThatADeadLeaderLeftInPhaseLegacyIsTakenDownWhenItsLeaseHasRunOut(t *testing.T) {
	Scenario(t, func(s *Stage) {
		a := s.Leader("a")
		b := s.Start("b")
		a.Way.Cut.Store(true)
		s.Phase("legacy", 2)
		a.Stop()
		time.Sleep(14 * time.Second)
		shielded(s, 2) // a may still lead, as far as b can know
		s.Waits(b, "legacy")
		s.Stands(ownerref.Absent)
		if got := s.OnLease().Record.Holder; got != "" {
			t.Errorf("%s holds the Lease", got)
		}
		s.Phase("dual", 3)
		b.Leads()
		shielded(s, 1)
	})
}

func TestACandidateWhosePodIsGoneStops(t *testing.T) {
	Scenario(t, func(s *Stage) {
		a := s.Leader("a")
		s.Server.Delete(PodsPath + "a")
		for _, presence := range s.ConfigMap().Presences {
			s.Server.Delete("/apis/coordination.k8s.io/v1/namespaces/ns/leases/" + presence.Name)
		}
		_, cause := a.Loses()
		err := a.Wait()
		if !errors.Is(cause, multilock.ErrPodGone) || !errors.Is(err, multilock.ErrPodGone) {
			t.Errorf("the cause is %v, Run returned %v", cause, err)
		}
	})
}

func TestAMissingPermissionIsNamedAndTheCandidateRecovers(t *testing.T) {
	for what, fragment := range map[string][]string{
		"list pods":        {"list", "pods"},
		"get configmap":    {"get", "configmaps"},
		"create configmap": {"create", "configmaps"},
		"create presence":  {"create", "leases"},
	} {
		t.Run(what, func(t *testing.T) {
			Scenario(t, func(s *Stage) {
				s.Refuses(func(verb, path string) bool {
					return verb == fragment[0] && strings.Contains(path, "/"+fragment[1])
				})
				a := s.Start("a")
				time.Sleep(time.Minute)
				got := a.Status().Waiting
				if problem := a.Status().Problem; problem != nil {
					got += problem.Error()
				}
				for _, word := range fragment {
					if !strings.Contains(got, word) {
						t.Errorf("it says %q, without %q", got, word)
					}
				}
				s.Refuses(nil)
				a.Leads()
			})
		})
	}
}

func TestAShieldIsPutUpAndKeptBehindASlowServer(t *testing.T) {
	Scenario(t, func(s *Stage) {
		s.Server.Landing = func(r *http.Request) bool {
			return !strings.HasPrefix(r.URL.Path, MapsPath) || sleep.For(r.Context(), 4*time.Second) == nil
		}
		a := s.Start("a")
		time.Sleep(time.Minute)
		a.Leads()
		shielded(s, 1)
		s.Start("b")
		time.Sleep(time.Minute)
		shielded(s, 2)
		a.Stays()
	})
}

// TestM7ACandidateWaitsOnceForWhatTheCollectorHasDecided, and long before it is to take over. That needs no
// write of the ConfigMap.
func TestM7ACandidateWaitsOnceForWhatTheCollectorHasDecided(t *testing.T) {
	Scenario(t, func(s *Stage) {
		s.Runs("a")
		a := s.Elect(s.Shield("a", s.Server), "a", nil)
		if _, took := a.Leads(); took != 5*time.Second {
			t.Errorf("a leads after %v", took)
		}
		b := s.Start("b")
		s.Forget()
		a.Stop()
		if _, took := b.Leads(); took != 0 {
			t.Errorf("b, long settled, leads %v after the release", took)
		}
		if n := s.Asked("e " + MapsPath); n != 0 {
			t.Errorf("%d writes of the ConfigMap", n)
		}
	})
}

// distant is a slow connection to the API server.
type distant struct{ http.Handler }

func (d distant) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if sleep.For(r.Context(), 5*time.Millisecond) == nil {
		d.Handler.ServeHTTP(w, r)
	}
}

// join starts that many candidates beside a leader and its shield, and returns how long it took until all were
// among the shield's owners.
func join(s *Stage, n int) time.Duration {
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
		Scenario(t, func(s *Stage) {
			s.Start("a").Leads()
			s.Forget()
			took := join(s, n)
			if updates := s.Asked("update " + MapPath); took > 2*time.Second || updates > n+n/3 {
				t.Errorf("%d have joined after %v and %d updates", n, took, updates)
			}
			shielded(s, n+1)
		})
	}
}
