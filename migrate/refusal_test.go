// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/multilock/shield"
	"github.com/zonelect/zonelect/migrate"
)

// all acknowledges every check there is.
var all = []string{
	"order", "configmap", "record", "candidates", "leader",
	"armed", "presumed", "legacy-pods", "workload", "selector", "no-way-back",
}

func TestWithoutAPhaseOnRecordThereIsNoStep(t *testing.T) {
	scenario(t, func(s *stage) {
		s.runs("old")
		s.holds("old")
		for _, by := range []mover{s.Advance, s.Rollback, s.Clean} {
			failed := s.refuses(by, migrate.Options{Acknowledge: all}, "order")
			if !strings.Contains(failed[0].ToDo, "mode auto") {
				s.t.Errorf("it says to do %q", failed[0].ToDo)
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
		}{{s.Advance, migrate.Clean}, {s.Advance, migrate.Dual}, {s.Advance, migrate.Legacy}, {s.Rollback, migrate.Dual}, {s.Clean, ""}, {s.Clean, migrate.Clean}} {
			s.refuses(o.by, migrate.Options{To: o.to, Acknowledge: all}, "order")
		}
		checks, err := s.Preflight(s.t.Context(), migrate.Clean)
		failed := slices.DeleteFunc(checks, func(c migrate.Check) bool { return c.Passes(all...) })
		if err != nil || len(failed) != 1 || failed[0].Name != "order" {
			s.t.Errorf("preflight: %+v, %v", failed, err)
		}
		s.goes(s.Advance, migrate.Sealed)
		s.refuses(s.Advance, migrate.Options{Acknowledge: all}, "order")
	})
}

// TestAMissingPermissionIsNamed, and nothing is written.
func TestAMissingPermissionIsNamed(t *testing.T) {
	scenario(t, func(s *stage) {
		s.joins("a")
		fails := func(by mover, denied, want string) {
			s.t.Helper()
			s.denied = []string{denied}
			_, err := by(s.t.Context(), migrate.Options{Acknowledge: all})
			if !errors.Is(err, locks.ErrForbidden) || !strings.Contains(err.Error(), want) {
				s.t.Errorf("without %s: %v", denied, err)
			}
			s.denied = nil
		}
		fails(s.Advance, "update leases", `needs verb "update" on leases`)
		s.goes(s.Advance, migrate.Sealed)
		fails(s.Clean, "list replicasets", `needs verb "list" on replicasets`)
		if r := s.report(); r.Step != 2 {
			s.t.Errorf("it is at %s, step %d", r.Phase, r.Step)
		}
	})
}

// TestNoPreflightWaitsAsLongAsALeaseSays: anybody may have written that.
func TestNoPreflightWaitsAsLongAsALeaseSays(t *testing.T) {
	for _, seconds := range []int{3600, 1<<31 - 1} {
		scenario(t, func(s *stage) {
			s.poses("a", "auto")
			s.lies("a", "sealed")
			s.server.Change(leasePath, func(o apitest.Object) { o["spec"].(apitest.Object)["leaseDurationSeconds"] = seconds })
			start := time.Now()
			s.refuses(s.Rollback, migrate.Options{Acknowledge: all}, "leader")
			if took := time.Since(start); took > 32*time.Second {
				s.t.Errorf("listened for a renewal for %v", took)
			}
		})
	}
}

// TestNothingIsDoneWhereNobodyWouldDoIt: the leader carries out the phase.
func TestNothingIsDoneWhereNobodyWouldDoIt(t *testing.T) {
	t.Run("no candidate", func(t *testing.T) {
		scenario(t, func(s *stage) {
			s.lies("a", "sealed")
			start := time.Now()
			s.refuses(s.Rollback, migrate.Options{Acknowledge: all}, "candidates", "leader")
			if took := time.Since(start); took < 15*time.Second || took > 20*time.Second {
				s.t.Errorf("listened for a renewal for %v", took)
			}
		})
	})
	t.Run("a dead leader", func(t *testing.T) {
		scenario(t, func(s *stage) {
			s.poses("a", "auto")
			s.lies("a", "sealed")
			s.refuses(s.Rollback, migrate.Options{Acknowledge: all}, "leader")
		})
	})
	t.Run("a deleted Lease", func(t *testing.T) {
		scenario(t, func(s *stage) {
			a := s.joins("a")
			s.goes(s.Advance, migrate.Sealed)
			s.leaves(a)
			s.server.Delete(leasePath)
			failed := s.refuses(s.Rollback, migrate.Options{Acknowledge: all}, "candidates", "leader")
			if !strings.Contains(failed[1].Detail, "does not exist") {
				s.t.Errorf("it says %q", failed[1].Detail)
			}
		})
	})
	t.Run("a leader that takes no part", func(t *testing.T) {
		scenario(t, func(s *stage) {
			a := s.joins("a")
			s.goes(s.Advance, migrate.Sealed)
			plain := s.joinsPlain("plain")
			s.leaves(a)
			s.refuses(s.Clean, migrate.Options{Acknowledge: all}, "candidates", "leader")
			s.joins("b")
			s.refuses(s.Rollback, migrate.Options{}, "leader")
			s.goes(s.Rollback, migrate.Dual, "leader") // it stops by itself (M12)
			if now := s.leading(); !slices.Equal(now, []string{"b"}) {
				s.t.Errorf("%v lead", now)
			}
			_ = plain
		})
	})
	t.Run("a client-go leader", func(t *testing.T) {
		scenario(t, func(s *stage) {
			s.poses("a", "auto")
			s.lies("theirs", "sealed")
			s.server.Change(leasePath, func(o apitest.Object) {
				o["metadata"].(apitest.Object)["annotations"].(apitest.Object)["zonelect.dev/holder"] = "a"
			})
			defer s.renews()()
			s.refuses(s.Rollback, migrate.Options{Acknowledge: all}, "leader")
		})
	})
}

// renews renews the Lease every two seconds, until the function is called.
func (s *stage) renews() func() {
	return s.every(2*time.Second, func() {
		s.server.Change(leasePath, func(o apitest.Object) {
			o["spec"].(apitest.Object)["renewTime"] = metav1.NowMicro()
		})
	})
}

// every calls do now and once in each d, until the returned function is called.
func (s *stage) every(d time.Duration, do func()) func() {
	end, done := make(chan struct{}), make(chan struct{})
	do()
	go func() {
		defer close(done)
		for {
			select {
			case <-time.After(d):
				do()
			case <-end:
				return
			}
		}
	}()
	return func() { close(end); <-done }
}

func TestCandidatesThatDoNotGoBeyondDualAreNotLeftBehind(t *testing.T) {
	dual := func(c *shield.Config) { c.Mode = multilock.Dual }
	scenario(t, func(s *stage) {
		s.joins("a", dual)
		s.refuses(s.Advance, migrate.Options{Acknowledge: all}, "candidates")
		s.joins("b")
		s.refuses(s.Advance, migrate.Options{}, "candidates")
	})
	scenario(t, func(s *stage) {
		s.joins("b")
		s.joins("a", dual)
		s.goes(s.Advance, migrate.Sealed, "candidates")
	})
}

func TestOnlyAnArmedShieldIsSealed(t *testing.T) {
	scenario(t, func(s *stage) {
		s.runs("old")
		s.holds("old")
		s.joins("a")
		failed := s.refuses(s.Advance, migrate.Options{Acknowledge: all}, "armed")
		if !strings.Contains(failed[0].ToDo, "a waits: legacy pods that may still lead: old") {
			s.t.Errorf("it says to do %q", failed[0].ToDo)
		}
	})
}

// TestNothingIsSealedWhileALegacyPodIsPresumedGone: behind a partition that pod may lead
// (M11).
func TestNothingIsSealedWhileALegacyPodIsPresumedGone(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.joins("a")
		s.leaves(a)
		s.poses("b", "auto")
		s.lies("b", "dual")
		defer s.renews()()
		s.says("zonelect.dev/presumed-gone", `[{"name":"old","uid":"uid-old"}]`)
		failed := s.refuses(s.Advance, migrate.Options{Acknowledge: all}, "presumed")
		if !strings.Contains(failed[0].Detail, "old/uid-old") {
			s.t.Errorf("it says %q", failed[0].Detail)
		}
	})
}

func TestNothingIsSealedOrCleanedUnderLegacyPodsUnlessThatIsAcknowledged(t *testing.T) {
	scenario(t, func(s *stage) {
		s.joins("a")
		s.runs("old")
		failed := s.refuses(s.Advance, migrate.Options{}, "legacy-pods")
		if !strings.Contains(failed[0].Detail, "old (") {
			s.t.Errorf("it says %q", failed[0].Detail)
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
		s.server.Put("/api/v1/nodes/node", &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "node", UID: "n"},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		})
		stop := s.every(10*time.Second, func() {
			s.server.Put("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node", &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "node", UID: "heart"}})
		})
		defer stop()
		s.goes(s.Advance, migrate.Sealed)
	})
}

func TestAStrangersConfigMapIsNoGround(t *testing.T) {
	scenario(t, func(s *stage) {
		s.poses("a", "auto")
		s.lies("", "legacy")
		s.server.Put(mapPath, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "lock", Namespace: "ns", UID: "u"}, Data: map[string]string{"a": "b"}})
		failed := s.refuses(s.Advance, migrate.Options{Acknowledge: all}, "configmap")
		if !strings.Contains(failed[0].ToDo, "give the lock another name") {
			s.t.Errorf("it says to do %q", failed[0].ToDo)
		}
	})
}

func TestAConfigMapThatMayNotBeReadIsNoGround(t *testing.T) {
	scenario(t, func(s *stage) {
		s.poses("a", "auto")
		s.lies("", "legacy")
		s.denied = []string{"get configmaps"}
		s.refuses(s.Advance, migrate.Options{Acknowledge: all}, "configmap")
	})
}

// TestTheWayBackNeedsSomebodyToLead: a legacy pod, unless that is acknowledged.
func TestTheWayBackNeedsSomebodyToLead(t *testing.T) {
	scenario(t, func(s *stage) {
		s.joins("a")
		s.refuses(s.Rollback, migrate.Options{}, "legacy-pods")
		s.goes(s.Rollback, migrate.Legacy, "legacy-pods")
	})
}

func TestCleanAsksWhetherAnythingBringsLegacyPodsBack(t *testing.T) {
	yes := true
	owned := func(kind, name string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID("uid-" + name), Controller: &yes}}
	}
	set := func(s *stage, name, of string, replicas int32) {
		s.server.Put(setsPath+name, &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID("uid-" + name), OwnerReferences: owned("Deployment", of)},
			Spec:       appsv1.ReplicaSetSpec{Replicas: &replicas},
		})
	}
	scenario(t, func(s *stage) {
		s.joins("a")
		s.server.Change(podsPath+"a", func(o apitest.Object) {
			o["metadata"].(apitest.Object)["ownerReferences"] = apitest.Clone(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: owned("ReplicaSet", "new")}})["metadata"].(apitest.Object)["ownerReferences"]
		})
		s.goes(s.Advance, migrate.Sealed)
		set(s, "new", "op", 1)
		set(s, "older", "op", 0)
		set(s, "strange", "other", 3)
		failed := s.refuses(s.Clean, migrate.Options{}, "no-way-back")
		if !strings.Contains(failed[0].Detail, "1 older ReplicaSets: older") {
			s.t.Errorf("it says %q", failed[0].Detail)
		}
		set(s, "old", "op", 2)
		failed = s.refuses(s.Clean, migrate.Options{}, "workload", "no-way-back")
		if !strings.HasSuffix(failed[0].Detail, ": old") {
			s.t.Errorf("it says %q", failed[0].Detail)
		}
		s.goes(s.Clean, migrate.Clean, "workload", "no-way-back")
	})
}

func TestOnlyWhatIsSealedIsCleaned(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.joins("a")
		s.leaves(a)
		s.poses("b", "auto")
		s.lies("b", "sealed")
		s.phase("sealed", "2")
		defer s.renews()()
		s.refuses(s.Clean, migrate.Options{Acknowledge: all}, "configmap")
	})
}

// TestFromCleanThereIsNoWayBackUnderALegacyLeader: no candidate would see it.
func TestFromCleanThereIsNoWayBackUnderALegacyLeader(t *testing.T) {
	scenario(t, func(s *stage) {
		s.joins("a")
		s.goes(s.Advance, migrate.Sealed)
		s.goes(s.Clean, migrate.Clean, "no-way-back")
		s.runs("old")
		s.holds("old")
		s.refuses(s.Rollback, migrate.Options{Acknowledge: all}, "configmap")
		s.vanishes("old")
		s.goes(s.Rollback, migrate.Dual)
	})
}
