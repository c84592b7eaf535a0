// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks/annotation"
	"github.com/zonelect/zonelect/locks/multilock/twin"
	"github.com/zonelect/zonelect/locks/ownerref"
	"github.com/zonelect/zonelect/migrate"
)

// joinsTwin starts a candidate that moves off an election record.
func (s *stage) joinsTwin(name string, kind annotation.Kind, change ...func(*twin.Config)) *seat {
	s.T.Helper()
	s.runs(name)
	c := twin.Config{Config: s.candidate(name), Kind: kind}
	for _, f := range change {
		f(&c)
	}
	lock, err := twin.New(c)
	must(s.T, err)
	return s.elect(lock, c.Candidate)
}

// elects makes a legacy elector hold the record, or nobody, renewed now, even if the test ends meanwhile.
func (s *stage) elects(kind annotation.Kind, holder string) {
	s.T.Helper()
	client := apitest.Wire(s.T, s.server, corev1.SchemeGroupVersion)
	lock, err := annotation.New(annotation.Config{Client: client, Kind: kind, Namespace: "ns", Name: "lock"})
	must(s.T, err)
	now, err := lock.Read(s.T.Context())
	if err == nil {
		r := now.Record
		r.Holder, r.LeaseDuration, r.RenewTime = holder, 15*time.Second, time.Now().Truncate(time.Second)
		_, err = lock.Write(s.T.Context(), now.Version, r)
	}
	if err != nil && s.T.Context().Err() == nil { // the test goes on
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
			r, lock := s.report(), record.Legacy{Resource: string(kind), Name: "lock", Elected: true}
			if r.Legacy.Lock != lock || r.Legacy.Kind != "record" || len(r.Problems) != 0 {
				t.Errorf("at first there is %+v", r)
			}
			p, err := s.Plan(t.Context())
			dual := err == nil && p.Next != nil && p.Next.By == "" && p.Next.To == migrate.Dual && p.Back == nil
			if !dual || !strings.Contains(p.Next.Does, "take turns") {
				t.Errorf("the plan is %+v, %v", p, err)
			}
			s.joinsTwin("a", kind)
			s.joinsTwin("b", kind)
			time.Sleep(16 * time.Second) // the legacy elector has died
			s.vanishes("old")
			s.follows(migrate.Dual)
			term := s.leading()

			failed := s.refuses(s.Advance, forced, "order")
			if !strings.Contains(failed[0].ToDo, "cannot be sealed") {
				t.Errorf("it says to do %q", failed[0].ToDo)
			}
			s.refuses(s.Advance, migrate.Options{To: migrate.Sealed, Acknowledge: all}, "order")
			s.refuses(s.Clean, migrate.Options{}, "no-way-back")
			s.cleans()
			s.goes(s.Rollback, migrate.Dual)
			if now := s.leading(); len(now) != 1 || now[0] != term[0] {
				t.Errorf("%v led, now %v do", term, now)
			}

			s.refuses(s.Rollback, migrate.Options{}, "legacy-pods")
			s.runs("old-2")
			s.goes(s.Rollback, migrate.Legacy)
			s.wants(0)
			s.elects(kind, "old-2_1")
			if r := s.report(); r.Legacy.Holder != "old-2_1" || r.Legacy.Ours || len(r.Problems) != 0 {
				t.Errorf("the legacy lock is back: %+v", r)
			}
			_, err = s.Advance(t.Context(), migrate.Options{})
			must(t, err)
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
		s.cleans()
		s.every(2*time.Second, func() { s.elects(kind, "L") })
		if r := s.report(); len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "held by L, though the phase is clean") {
			s.T.Errorf("the problems are %q", r.Problems)
		}
		s.refuses(s.Rollback, migrate.Options{}, "record")
		_, err := s.Rollback(s.T.Context(), migrate.Options{Acknowledge: []string{"record"}})
		must(s.T, err)
		s.stalls(time.Second, "held by L, not yet by the leader")
		s.wants(0)
		s.runs("L")
		time.Sleep(16 * time.Second)
		s.refuses(s.Clean, forced, "record", "leader")
		s.goes(s.Rollback, migrate.Legacy) // no other candidate leads
	})
}

// TestTheStepOutOfDualWaitsForTheRecord: only the record keeps legacy electors from leading
// before the leader has stopped.
func TestTheStepOutOfDualWaitsForTheRecord(t *testing.T) {
	scenario(t, func(s *stage) {
		s.poses("a", "auto")
		s.lies("a", "dual")
		s.annotates(leasePath, "zonelect.dev/legacy-lock", "annotation/endpoints/lock")
		s.runs("old")
		failed := s.refuses(s.Rollback, forced, "record")
		if !strings.Contains(failed[0].ToDo, "wait until a has the record too") {
			s.T.Errorf("it says to do %q", failed[0].ToDo)
		}
		s.denied = []string{"get /endpoints"}
		s.refuses(s.Rollback, forced, "record")
	})
}

func TestAnElectionRecordThatWasSealedByHandIsSetRight(t *testing.T) {
	scenario(t, func(s *stage) {
		s.joinsTwin("a", annotation.ConfigMaps)
		s.phase("sealed", "2")
		if p, err := s.Plan(s.T.Context()); err != nil || p.Next != nil || !strings.Contains(p.Back.Does, "cannot be sealed") {
			s.T.Errorf("the plan is %+v, %v", p, err)
		}
		s.stalls(time.Second, "rolled back to dual")
		s.refuses(s.Clean, forced, "order")
		s.goes(s.Rollback, migrate.Dual)
	})
}

// TestACandidateWithoutAPodCountsAsLongAsItRenews its presence.
func TestACandidateWithoutAPodCountsAsLongAsItRenews(t *testing.T) {
	scenario(t, func(s *stage) {
		s.joinsTwin("a", annotation.Endpoints, func(c *twin.Config) { c.Pod = ownerref.Owner{} })
		s.server.Delete(podsPath + "a")
		s.wants(1)
		s.cleans()
	})
}
