// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/annotation"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/multilock/twin"
	"github.com/zonelect/zonelect/locks/ownerref"
	"github.com/zonelect/zonelect/migrate"
)

// joinsTwin starts a candidate that moves off an election record.
func (s *stage) joinsTwin(name string, kind annotation.Kind, change ...func(*twin.Config)) *seat {
	s.T.Helper()
	s.runs(name)
	c := twin.Config{
		Config: multilock.Config{
			Lease:     lease.Config{Client: apitest.Wire(s.T, s.server, coordinationv1.SchemeGroupVersion), Namespace: "ns", Name: "lock"},
			Core:      apitest.Wire(s.T, s.server, corev1.SchemeGroupVersion),
			Candidate: locks.Candidate{Identity: name, Zone: "z-" + name},
			Pod:       ownerref.Owner{Name: name, UID: types.UID("uid-" + name)},
			Version:   "v2",
		},
		Kind: kind,
	}
	for _, f := range change {
		f(&c)
	}
	lock, err := twin.New(c)
	if err != nil {
		s.T.Fatal(err)
	}
	return s.elect(lock, c.Candidate)
}

// elects makes a legacy elector hold the record, or nobody, renewed now.
func (s *stage) elects(kind annotation.Kind, holder string) {
	s.T.Helper()
	lock, err := annotation.New(annotation.Config{Client: apitest.Wire(s.T, s.server, corev1.SchemeGroupVersion), Kind: kind, Namespace: "ns", Name: "lock"})
	if err != nil {
		s.T.Fatal(err)
	}
	now, err := lock.Read(s.T.Context())
	if err != nil {
		s.T.Fatal(err)
	}
	r := now.Record
	r.Holder, r.LeaseDuration, r.RenewTime = holder, 15*time.Second, time.Now().Truncate(time.Second)
	if _, err := lock.Write(s.T.Context(), now.Version, r); err != nil {
		s.T.Error(err)
	}
}

// TestThereAndBackAgainWithAnElectionRecord takes every step with running
// candidates.
func TestThereAndBackAgainWithAnElectionRecord(t *testing.T) {
	for _, kind := range []annotation.Kind{annotation.ConfigMaps, annotation.Endpoints} {
		scenario(t, func(s *stage) {
			t := s.T
			s.runs("old")
			s.elects(kind, "old_1")
			if r := s.report(); r.Legacy != fmt.Sprintf("annotation/%s/lock", kind) || r.ConfigMap.Kind != "record" || len(r.Problems) != 0 {
				t.Errorf("at first there is %+v", r)
			}
			p, err := s.Plan(t.Context())
			if err != nil || p.Next == nil || p.Next.By != "" || p.Next.To != migrate.Dual || !strings.Contains(p.Next.Does, "take turns") || p.Back != nil {
				t.Errorf("the plan is %+v, %v", p, err)
			}
			s.joinsTwin("a", kind)
			s.joinsTwin("b", kind)
			time.Sleep(16 * time.Second) // the legacy elector has died
			s.vanishes("old")
			s.follows(migrate.Dual)
			term := s.leading()

			failed := s.refuses(s.Advance, migrate.Options{Acknowledge: all}, "order")
			if !strings.Contains(failed[0].ToDo, "cannot be sealed") {
				t.Errorf("it says to do %q", failed[0].ToDo)
			}
			s.refuses(s.Advance, migrate.Options{To: migrate.Sealed, Acknowledge: all}, "order")
			s.refuses(s.Clean, migrate.Options{}, "no-way-back")
			s.goes(s.Clean, migrate.Clean, "no-way-back")
			if r := s.report(); r.ConfigMap.Kind != ownerref.Absent || len(r.Problems) != 0 {
				t.Errorf("in phase clean there is %+v", r)
			}
			s.goes(s.Rollback, migrate.Dual)
			if now := s.leading(); len(now) != 1 || now[0] != term[0] {
				t.Errorf("%v led, now %v do", term, now)
			}

			s.refuses(s.Rollback, migrate.Options{}, "legacy-pods")
			s.runs("old-2")
			s.goes(s.Rollback, migrate.Legacy)
			if now := s.leading(); len(now) != 0 {
				t.Errorf("in phase legacy %v lead", now)
			}
			s.elects(kind, "old-2_1")
			if r := s.report(); r.ConfigMap.Elected[0].Holder != "old-2_1" || r.ConfigMap.Elected[0].Ours || len(r.Problems) != 0 {
				t.Errorf("the legacy lock is back: %+v", r)
			}
			if _, err := s.Advance(t.Context(), migrate.Options{}); err != nil {
				t.Fatal(err)
			}
			s.elects(kind, "")
			s.vanishes("old-2")
			if r := s.follows(migrate.Dual); r.Step != 5 || len(r.LegacyPods) != 0 {
				t.Errorf("four changes of phase after the first: %+v", r)
			}
		})
	}
}

// TestARecordThatALegacyElectorHoldsIsInTheWay, if both would lead.
func TestARecordThatALegacyElectorHoldsIsInTheWay(t *testing.T) {
	const kind = annotation.Endpoints
	scenario(t, func(s *stage) {
		s.joinsTwin("a", kind)
		s.goes(s.Clean, migrate.Clean, "no-way-back")
		defer s.every(2*time.Second, func() { s.elects(kind, "L") })()
		if r := s.report(); len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "held by L, though the phase is clean") {
			s.T.Errorf("the problems are %q", r.Problems)
		}
		s.refuses(s.Rollback, migrate.Options{}, "record")
		if _, err := s.Rollback(s.T.Context(), migrate.Options{Acknowledge: []string{"record"}}); err != nil {
			s.T.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(s.T.Context(), time.Second)
		defer cancel()
		if _, err := s.Await(ctx, nil); err == nil || !strings.Contains(err.Error(), "held by L, not yet by the leader") || len(s.leading()) != 0 {
			s.T.Errorf("%v lead beside L: %v", s.leading(), err)
		}
		s.runs("L")
		time.Sleep(16 * time.Second)
		s.refuses(s.Clean, migrate.Options{Acknowledge: all}, "record", "leader")
		s.goes(s.Rollback, migrate.Legacy) // no other candidate leads
	})
}

// TestTheStepOutOfDualWaitsForTheRecord: only the record keeps legacy electors from leading
// before the leader has stopped.
func TestTheStepOutOfDualWaitsForTheRecord(t *testing.T) {
	scenario(t, func(s *stage) {
		s.poses("a", "auto")
		s.lies("a", "dual")
		s.names("annotation/endpoints/lock")
		s.runs("old")
		failed := s.refuses(s.Rollback, migrate.Options{Acknowledge: all}, "record")
		if !strings.Contains(failed[0].ToDo, "wait until a has the record too") {
			s.T.Errorf("it says to do %q", failed[0].ToDo)
		}
		s.denied = []string{"get endpoints"}
		s.refuses(s.Rollback, migrate.Options{Acknowledge: all}, "record")
	})
}

// names sets the legacy lock that the Lease names.
func (s *stage) names(legacy string) {
	s.server.Change(leasePath, func(o apitest.Object) {
		o["metadata"].(apitest.Object)["annotations"].(apitest.Object)["zonelect.dev/legacy-lock"] = legacy
	})
}

func TestARecordThatIsNoRecordIsNoGround(t *testing.T) {
	scenario(t, func(s *stage) {
		s.poses("a", "auto")
		s.lies("a", "clean")
		s.names("annotation/endpoints/lock")
		s.server.Put("/api/v1/namespaces/ns/endpoints/lock", apitest.Object{"metadata": apitest.Object{"name": "lock", "uid": "u", "annotations": apitest.Object{
			"control-plane.alpha.kubernetes.io/leader": "no JSON",
		}}})
		s.refuses(s.Rollback, migrate.Options{Acknowledge: all}, "record")
		if r := s.report(); len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "cannot be read") {
			s.T.Errorf("the problems are %q", r.Problems)
		}
	})
}

func TestAnElectionRecordThatWasSealedByHandIsSetRight(t *testing.T) {
	scenario(t, func(s *stage) {
		s.joinsTwin("a", annotation.ConfigMaps)
		s.phase("sealed", "2")
		if r := s.report(); !strings.Contains(strings.Join(r.Warnings, "; "), "cannot be sealed") {
			s.T.Errorf("the warnings are %q", r.Warnings)
		}
		ctx, cancel := context.WithTimeout(s.T.Context(), time.Second)
		defer cancel()
		if _, err := s.Await(ctx, nil); err == nil || !strings.Contains(err.Error(), "rolled back to dual") {
			s.T.Errorf("got %v", err)
		}
		s.refuses(s.Clean, migrate.Options{Acknowledge: all}, "order")
		s.goes(s.Rollback, migrate.Dual)
	})
}

func TestWithAnElectionRecordTooCandidatesOfModeDualAreNotLeftBehind(t *testing.T) {
	scenario(t, func(s *stage) {
		s.joinsTwin("a", annotation.Endpoints, func(c *twin.Config) { c.Mode = multilock.Dual })
		s.refuses(s.Clean, migrate.Options{Acknowledge: all}, "candidates")
	})
}

// TestACandidateWithoutAPodCountsAsLongAsItRenews its presence.
func TestACandidateWithoutAPodCountsAsLongAsItRenews(t *testing.T) {
	scenario(t, func(s *stage) {
		s.joinsTwin("a", annotation.Endpoints, func(c *twin.Config) { c.Pod = ownerref.Owner{} })
		s.server.Delete(podsPath + "a")
		if now := s.leading(); len(now) != 1 {
			s.T.Errorf("%v lead", now)
		}
		s.goes(s.Clean, migrate.Clean, "no-way-back")
	})
}
