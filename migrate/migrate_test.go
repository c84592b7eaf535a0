// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/ownerref"
	"github.com/zonelect/zonelect/migrate"
)

// TestThereAndBackAgain takes every step with running candidates.
func TestThereAndBackAgain(t *testing.T) {
	scenario(t, func(s *stage) {
		t := s.T
		s.runs("old")
		s.holds("old")
		s.joins("a")
		s.joins("b")
		if r := s.report(); r.Phase != migrate.Dual || r.Legacy.Kind != ownerref.Legacy || len(r.LegacyPods) != 1 {
			t.Errorf("at first there is %+v", r)
		}
		s.refuses(s.Advance, migrate.Options{}, "configmap", "legacy-pods")
		s.vanishes("old")
		s.follows(migrate.Dual)
		term := s.leading()
		if len(term) != 1 {
			t.Fatalf("%v lead", term)
		}

		s.seals()
		s.goes(s.Rollback, migrate.Dual)
		if of := s.report().Legacy.ConfigMap.Presences; len(of) != 2 {
			t.Errorf("given back to %v", of)
		}
		if now := s.leading(); len(now) != 1 || now[0] != term[0] {
			t.Errorf("%v led, now %v do", term, now)
		}

		s.runs("old-2")
		s.goes(s.Rollback, migrate.Legacy)
		s.wants(0)
		s.holds("old-2")
		if r := s.report(); r.Legacy.ConfigMap.Owner.UID != "uid-old-2" || len(r.Problems) != 0 {
			t.Errorf("the legacy lock is back: %+v", r)
		}
		_, err := s.Advance(t.Context(), migrate.Options{})
		must(t, err)
		time.Sleep(5 * time.Second) // a candidate sees it lead
		s.vanishes("old-2")
		s.follows(migrate.Dual)

		s.seals()
		s.refuses(s.Clean, migrate.Options{}, "no-way-back")
		s.cleans()
		s.wants(1)
		s.goes(s.Rollback, migrate.Dual)
		if r := s.report(); r.Step != 8 {
			t.Errorf("seven changes of phase after the first: step %d", r.Step)
		}
	})
}

// TestAStepWritesOneAnnotation: candidates do everything else. A dry run writes nothing.
func TestAStepWritesOneAnnotation(t *testing.T) {
	scenario(t, func(s *stage) {
		s.joins("a")
		out, err := s.Advance(s.T.Context(), migrate.Options{DryRun: true})
		good := err == nil && out.To == migrate.Sealed && out.Step == 2 && len(out.Checks) > 0
		if !good || len(s.wrote) != 0 || s.report().Phase != migrate.Dual {
			s.T.Errorf("a dry run: got %+v, %v; wrote %v", out, err, s.wrote)
		}
		s.seals()
		if !slices.Equal(s.wrote, []string{"PUT " + leasePath}) {
			s.T.Errorf("wrote %v", s.wrote)
		}
	})
}

// TestTheLeadersRenewalsDoNotStopAStep: they change the Lease all the time.
func TestTheLeadersRenewalsDoNotStopAStep(t *testing.T) {
	scenario(t, func(s *stage) {
		s.joins("a")
		n := 0
		s.before = func() {
			if n++; n < 4 {
				s.server.Change(leasePath, func(apitest.Object) {})
			}
		}
		s.seals()
		if n != 4 {
			s.T.Errorf("%d writes", n)
		}
	})
}

// TestTwoWhoTakeAStepTogetherTakeOne: one goes there and back before the first request of the other, or before the
// second, and so on. What the other writes replaces the version that it has judged.
func TestTwoWhoTakeAStepTogetherTakeOne(t *testing.T) {
	conflicts := 0
	for at, met := 1, true; met; at++ {
		scenario(t, func(s *stage) {
			s.joins("a")
			n := 0
			s.asks = func() {
				if n++; n == at {
					s.phase("dual", "3")
				}
			}
			out, err := s.Advance(s.T.Context(), migrate.Options{})
			s.asks, met = nil, n >= at
			switch r := s.report(); {
			case !met, err == nil && out.Step == 4: // there was nobody else, or it has seen what the other did
			case errors.Is(err, locks.ErrConflict) && strings.Contains(err.Error(), "dual (step 3)") && r.Step == 3:
				conflicts++
			default:
				s.T.Errorf("before request %d: got step %d, %v, and step %d is on record", at, out.Step, err, r.Step)
			}
		})
	}
	if conflicts == 0 {
		t.Error("the two never met")
	}
}

// TestWhatChangesMeanwhileIsJudgedAnew: a legacy pod starts at the last moment.
func TestWhatChangesMeanwhileIsJudgedAnew(t *testing.T) {
	scenario(t, func(s *stage) {
		s.joins("a")
		s.before = func() {
			s.before = nil
			s.runs("old")
			s.server.Change(leasePath, func(apitest.Object) {})
		}
		s.refuses(s.Advance, migrate.Options{}, "legacy-pods")
	})
}

func TestAwaitSaysWhatKeepsTheCandidates(t *testing.T) {
	scenario(t, func(s *stage) {
		s.runs("old")
		s.joins("a")
		ctx, cancel := context.WithTimeout(s.T.Context(), time.Minute)
		defer cancel()
		var told []string
		r, err := s.Await(ctx, func(why []string) { told = append(told, strings.Join(why, "; ")) })
		const why = "a waits: legacy pods that may still lead: old (alive)"
		if !errors.Is(err, context.DeadlineExceeded) || r.Phase != migrate.Dual ||
			!strings.Contains(err.Error(), `to phase "dual": `) || !strings.Contains(err.Error(), why) {
			s.T.Errorf("got %v", err)
		}
		if len(told) == 0 || len(told) > 3 || !strings.Contains(told[len(told)-1], "old (alive)") {
			s.T.Errorf("it told %q", told)
		}
	})
}

// TestAwaitWaitsUntilTheLeaseSaysThePhaseToo: a backup has put it back, and the leader cannot write for three seconds.
func TestAwaitWaitsUntilTheLeaseSaysThePhaseToo(t *testing.T) {
	scenario(t, func(s *stage) {
		s.joins("a")
		s.seals()
		end := time.Now().Add(3 * time.Second)
		s.server.Mu.Lock()
		s.server.Before = func(verb, path string) (int, apitest.Object) {
			if verb == "update" && path == leasePath && time.Now().Before(end) {
				return http.StatusServiceUnavailable, apitest.Object{}
			}
			return 0, nil
		}
		s.server.Mu.Unlock()
		s.phase("dual", "1")
		s.follows(migrate.Sealed)
		if took := time.Until(end); took > 0 {
			s.T.Errorf("followed %v before the Lease could say so", took)
		}
	})
}

// TestWhatIsBeingDeletedCountsAsWhatGoes: the sealed ConfigMap has a finalizer. Clean has not
// been followed as long as it is there, and no step relies on it.
func TestWhatIsBeingDeletedCountsAsWhatGoes(t *testing.T) {
	scenario(t, func(s *stage) {
		const hold = "stays until its finalizers are gone: example.com/hold"
		s.server.Lingers = func(path string) bool { return path == mapPath }
		s.joins("a")
		s.follows(migrate.Dual)
		s.server.Change(mapPath, func(o apitest.Object) { o["metadata"].(apitest.Object)["finalizers"] = []any{"example.com/hold"} })
		s.seals()
		_, err := s.Clean(s.T.Context(), forGood)
		must(s.T, err)
		s.stalls(time.Minute, hold)
		s.wants(1)
		failed := s.refuses(s.Rollback, forced, "configmap")
		if !strings.Contains(failed[0].Detail, hold) {
			s.T.Errorf("it says %q", failed[0].Detail)
		}
		s.phase("dual", "9") // by hand
		s.stalls(time.Minute, hold)
		s.server.Delete(mapPath)
		s.follows(migrate.Dual)
	})
}

// wants checks how many candidates lead.
func (s *stage) wants(n int) {
	s.T.Helper()
	if now := s.leading(); len(now) != n {
		s.T.Errorf("%v lead", now)
	}
}

// TestNothingIsFollowedBeforeItIsDone: without a leader nothing is done.
func TestNothingIsFollowedBeforeItIsDone(t *testing.T) {
	for phase, want := range map[string]string{"legacy": "left to legacy pods", "dual": "an armed shield", "clean": "gone"} {
		scenario(t, func(s *stage) {
			a := s.joins("a")
			s.seals()
			s.leaves(a)
			s.phase(phase, "3")
			s.stalls(time.Minute, "sealed, not yet "+want)
		})
	}
	for _, do := range []func(s *stage){
		func(s *stage) { s.lies("a", "dual"); s.annotates(mapPath, "zonelect.dev/shield-armed", "false") },
		func(s *stage) { s.poses("b", "auto"); s.lies("b", "dual") }, // without the leader
	} {
		scenario(t, func(s *stage) {
			s.leaves(s.joins("a"))
			s.runs("a")
			do(s)
			s.stalls(10*time.Second, "shield, not yet an armed shield")
		})
	}
}

func TestThePlanSaysWhatTheNextStepDoesAndWhetherItCouldBeTaken(t *testing.T) {
	scenario(t, func(s *stage) {
		p, err := s.Plan(s.T.Context())
		if err != nil || p.Next == nil || p.Next.By != "" || p.Back != nil || !strings.Contains(p.Next.Does, "mode auto") {
			s.T.Errorf("with nothing there: %+v, %v", p, err)
		}
		s.joins("a")
		for _, phase := range []migrate.Phase{migrate.Dual, migrate.Sealed, migrate.Clean} {
			p, err := s.Plan(s.T.Context())
			if err != nil || p.Report.Phase != phase || p.Back == nil || p.Back.By != "rollback" || p.Back.Does == "" ||
				(p.Next == nil) != (phase == migrate.Clean) || (len(p.Checks) == 0) != (phase == migrate.Clean) {
				s.T.Errorf("%s: %+v, %v", phase, p, err)
			}
			switch phase {
			case migrate.Dual:
				s.seals()
			case migrate.Sealed:
				s.cleans()
			}
		}
	})
}

func TestAConfigSaysWhatIsWrongWithIt(t *testing.T) {
	_, err := migrate.New(migrate.Config{LegacyName: "A"})
	for _, word := range []string{"namespace is empty", "name is empty", "coordination.k8s.io/v1", "apps/v1", `"A" is not valid`} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not say %q", err, word)
		}
	}
}
