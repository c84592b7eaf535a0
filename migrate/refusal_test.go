// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/multilock/shield"
	"github.com/zonelect/zonelect/migrate"
)

// all acknowledges every check there is.
var all = []string{
	"order", "configmap", "record", "candidates", "leader",
	"legacy-pods", "selector", "no-way-back",
}

var (
	forced  = migrate.Options{Acknowledge: all}
	forGood = migrate.Options{Acknowledge: []string{"no-way-back"}}
)

func TestWithoutAPhaseOnRecordThereIsNoStep(t *testing.T) {
	scenario(t, func(s *stage) {
		s.runs("old")
		s.holds("old")
		for _, by := range []mover{s.Advance, s.Rollback, s.Clean} {
			failed := s.refuses(by, forced, "order")
			if !strings.Contains(failed[0].ToDo, "mode auto") {
				s.T.Errorf("it says to do %q", failed[0].ToDo)
			}
		}
	})
}

func TestStepsAreTakenOneAtATime(t *testing.T) {
	scenario(t, func(s *stage) {
		s.joins("a")
		for _, o := range []struct {
			by mover
			to migrate.Phase
		}{
			{s.Advance, migrate.Clean}, {s.Advance, migrate.Dual}, {s.Advance, migrate.Legacy},
			{s.Rollback, migrate.Dual}, {s.Clean, ""}, {s.Clean, migrate.Clean},
		} {
			s.refuses(o.by, migrate.Options{To: o.to, Acknowledge: all}, "order")
		}
		s.seals()
		s.refuses(s.Advance, forced, "order")
	})
}

// TestAMissingPermissionIsNamed, and nothing is written.
func TestAMissingPermissionIsNamed(t *testing.T) {
	scenario(t, func(s *stage) {
		s.joins("a")
		s.denied = []string{"update /leases"}
		_, err := s.Advance(s.T.Context(), migrate.Options{})
		if !errors.Is(err, locks.ErrForbidden) || !strings.Contains(err.Error(), `needs verb "update" on leases`) {
			s.T.Errorf("got %v", err)
		}
	})
}

// TestAStepIsRefusedOnGroundsThatNobodyMayAcknowledge: the leader carries out the phase (M3), and nothing is
// sealed or cleaned that would let legacy pods lead beside it.
func TestAStepIsRefusedOnGroundsThatNobodyMayAcknowledge(t *testing.T) {
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "lock", Namespace: "ns", UID: "u"}, Data: map[string]string{"a": "b"}}
	for name, tc := range map[string]struct {
		do     func(s *stage) mover
		checks string
		says   string
	}{
		"no candidate": {func(s *stage) mover {
			s.lies("a", "sealed")
			time.Sleep(16 * time.Second)
			return s.Rollback
		}, "candidates leader", "not renewed"},
		"no leader": {func(s *stage) mover {
			s.poses("a", "auto")
			s.lies("", "sealed")
			return s.Rollback
		}, "leader", "nobody holds the Lease"},
		"a leader that takes no part": {func(s *stage) mover {
			s.poses("a", "auto")
			s.poses("plain", "lease")
			s.lies("plain", "sealed")
			return s.Clean
		}, "leader", "does not take part"},
		"a deleted Lease": {func(s *stage) mover {
			a := s.joins("a")
			s.seals()
			s.leaves(a)
			s.server.Delete(leasePath)
			return s.Rollback
		}, "candidates leader", "does not exist"},
		"a client-go leader": {func(s *stage) mover {
			s.poses("a", "auto")
			s.lies("theirs", "sealed")
			s.annotates(leasePath, "zonelect.dev/holder", "a")
			return s.Rollback
		}, "leader", "does not take part"},
		"a shield that is not armed": {func(s *stage) mover {
			s.runs("old")
			s.holds("old")
			s.joins("a")
			return s.Advance
		}, "configmap", "wait until a candidate leads"},
		"M11: a pod presumed gone": {func(s *stage) mover {
			s.leaves(s.joins("a"))
			s.poses("b", "auto")
			s.lies("b", "dual")
			s.annotates(mapPath, "zonelect.dev/presumed-gone", `[{"name":"old","uid":"uid-old"}]`)
			return s.Advance
		}, "configmap", "old/uid-old"},
		"a stranger's ConfigMap": {func(s *stage) mover {
			s.poses("a", "auto")
			s.lies("", "legacy")
			s.server.Put(mapPath, foreign)
			return s.Advance
		}, "configmap", "give the lock another name"},
		"a ConfigMap that may not be read": {func(s *stage) mover {
			s.poses("a", "auto")
			s.lies("", "legacy")
			s.denied = []string{"get /configmaps"}
			return s.Advance
		}, "configmap", "get on configmaps"},
		"a record that is none": {func(s *stage) mover {
			s.poses("a", "auto")
			s.lies("a", "clean")
			s.annotates(leasePath, "zonelect.dev/legacy-lock", "annotation/endpoints/lock")
			s.server.Put("/api/v1/namespaces/ns/endpoints/lock", elected("no JSON"))
			return s.Rollback
		}, "record", "cannot be read"},
		"a shield that is not sealed": {func(s *stage) mover {
			s.leaves(s.joins("a"))
			s.poses("b", "auto")
			s.lies("b", "sealed")
			s.phase("sealed", "2")
			return s.Clean
		}, "configmap", "sealed it"},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(s *stage) {
				failed := s.refuses(tc.do(s), forced, strings.Fields(tc.checks)...)
				if last := failed[len(failed)-1]; !strings.Contains(last.Detail+last.ToDo, tc.says) {
					s.T.Errorf("it says %+v", last)
				}
			})
		})
	}
}

// every calls do now and once in each d, until the test ends.
func (s *stage) every(d time.Duration, do func()) {
	ctx := s.T.Context()
	do()
	go func() {
		for sleep.For(ctx, d) == nil {
			do()
		}
	}()
}

func TestCandidatesThatDoNotGoBeyondDualAreNotLeftBehind(t *testing.T) {
	dual := func(c *shield.Config) { c.Mode = multilock.Dual }
	scenario(t, func(s *stage) {
		s.joins("a", dual)
		s.refuses(s.Advance, forced, "candidates")
		s.joins("b")
		s.refuses(s.Advance, migrate.Options{}, "candidates")
	})
	scenario(t, func(s *stage) {
		s.joins("b")
		s.joins("a", dual)
		s.goes(s.Advance, migrate.Sealed, "candidates")
	})
}

func TestNothingIsSealedOrCleanedUnderLegacyPodsUnlessThatIsAcknowledged(t *testing.T) {
	scenario(t, func(s *stage) {
		s.joins("a")
		s.runs("old")
		failed := s.refuses(s.Advance, migrate.Options{}, "legacy-pods")
		if !strings.Contains(failed[0].Detail, "old (") {
			s.T.Errorf("it says %q", failed[0].Detail)
		}
		s.goes(s.Advance, migrate.Sealed, "legacy-pods")
		s.refuses(s.Clean, migrate.Options{}, "no-way-back", "legacy-pods")
	})
}

// TestAFinishedPodIsNoLegacyPodOnceItsKubeletWasHeard: it takes a heartbeat.
func TestAFinishedPodIsNoLegacyPodOnceItsKubeletWasHeard(t *testing.T) {
	scenario(t, func(s *stage) {
		s.joins("a")
		s.runs("old", func(p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodSucceeded}
		})
		s.refuses(s.Advance, migrate.Options{}, "legacy-pods")
		s.every(10*time.Second, func() {
			heart := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "node", UID: "heart"}}
			s.server.Put("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node", heart)
		})
		s.seals()
	})
}

// TestFromCleanThereIsNoWayBackUnderALegacyLeader: no candidate would see it. Nor is there one beside a pod that
// may become one at any moment, because no shield is there to wait at.
func TestFromCleanThereIsNoWayBackUnderALegacyLeader(t *testing.T) {
	scenario(t, func(s *stage) {
		s.joins("a")
		s.seals()
		s.cleans()
		s.runs("old")
		s.refuses(s.Rollback, migrate.Options{}, "legacy-pods")
		s.holds("old")
		time.Sleep(time.Second) // the leader's term ends
		s.refuses(s.Rollback, forced, "configmap", "leader")
		s.vanishes("old")
		time.Sleep(15 * time.Second) // its term has ended
		s.goes(s.Rollback, migrate.Dual)
	})
}
