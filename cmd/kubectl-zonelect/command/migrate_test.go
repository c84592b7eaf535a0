// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/multilock/shield"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// runs adds a pod of the operator.
func (w *world) runs(name string) {
	w.server.Put("/api/v1/namespaces/ns/pods/"+name, &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID("uid-" + name), Labels: map[string]string{"app": "op"}},
		Spec:       corev1.PodSpec{NodeName: "node"},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	})
}

// elects makes a legacy elector hold the election record.
func (w *world) elects(holder string) {
	w.putEndpoints("op", `{"holderIdentity":"`+holder+`","leaseDurationSeconds":15}`)
}

// joins starts a real candidate, which ends with the test.
func (w *world) joins(name, zone string) {
	w.t.Helper()
	w.runs(name)
	candidate := locks.Candidate{Identity: name + "_1", Zone: zone}
	lock, err := shield.New(shield.Config{PodSelector: "app=op", Config: multilock.Config{
		Lease:     lease.Config{Client: apitest.Wire(w.t, w.server, coordinationv1.SchemeGroupVersion), Namespace: "ns", Name: "op"},
		Core:      apitest.Wire(w.t, w.server, corev1.SchemeGroupVersion),
		Candidate: candidate,
		Pod:       ownerref.Owner{Name: name, UID: types.UID("uid-" + name)},
	}})
	must(w.t, err)
	w.elect(lock, candidate, nil)
	time.Sleep(5 * time.Second) // M7
	synctest.Wait()
}

// step runs a migrate command for the lock op.
func (w *world) step(by string, args ...string) result {
	w.t.Helper()
	return w.run(append([]string{"migrate", by, "op", "-l", "app=op"}, args...)...)
}

func (w *world) phase() string {
	w.server.Mu.Lock()
	defer w.server.Mu.Unlock()
	annotations, _ := w.server.Objects[leasesPath+"op"]["metadata"].(apitest.Object)["annotations"].(apitest.Object)
	phase, _ := annotations[record.AnnotationPhase].(string)
	return phase
}

// followed drops the messages about waiting: how many of them appear depends on which side is
// faster.
func followed(r result) result {
	lines := strings.SplitAfter(r.errors, "\n")
	r.errors = strings.Join(slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "waiting: ") }), "")
	return r
}

func TestAMigrationGoesThereAndBack(t *testing.T) {
	inABubble(t, func(w *world) {
		w.joins("op-a", "za")
		w.joins("op-b", "zb")
		golden(t, "plan", w.step("plan"))
		if r := w.step("plan", "-o", "jsonpath={.kind} {.metadata.name} {.next.to} {.report.phase}"); r.out != "MigrationPlan op sealed dual" {
			t.Errorf("for programs the plan is %s%s", r.out, r.errors)
		}
		golden(t, "advance-dry-run", w.step("advance", "--dry-run"))
		if got := w.phase(); got != "dual" {
			t.Fatalf("a dry run has made the phase %s", got)
		}
		golden(t, "advance", followed(w.step("advance", "--to=sealed", "--yes")))
		golden(t, "plan-sealed", w.step("plan"))
		golden(t, "clean-refused", w.step("clean", "--yes"))
		golden(t, "clean", followed(w.step("clean", "--yes", "--acknowledge=no-way-back")))
		golden(t, "rollback", followed(w.step("rollback", "--yes")))
		golden(t, "rollback-refused", w.step("rollback", "--yes"))
		w.runs("old-0")
		golden(t, "rollback-legacy", followed(w.step("rollback", "--yes")))
		if got := w.phase(); got != "legacy" {
			t.Errorf("the phase is %s", got)
		}
	})
}

func TestAnUnsafeStepIsRefusedWithReasons(t *testing.T) {
	inABubble(t, func(w *world) {
		w.joins("op-a", "za")
		w.runs("old-0")
		r := w.step("advance", "--yes")
		golden(t, "refused", r)
		if r.code != exitRefused || w.phase() != "dual" {
			t.Errorf("exit code %d, phase %s", r.code, w.phase())
		}
		golden(t, "refused-order", w.step("advance", "--yes", "--to=legacy"))
		golden(t, "acknowledged", w.step("advance", "--dry-run", "--acknowledge=legacy-pods"))
	})
}

func TestNothingIsChangedWithoutYes(t *testing.T) {
	inABubble(t, func(w *world) {
		w.joins("op-a", "za")
		r := w.step("advance")
		if r.code != exitRefused || w.phase() != "dual" || !strings.Contains(r.errors, "--to sealed --yes takes the step") {
			t.Errorf("exit code %d, phase %s: %s%s", r.code, w.phase(), r.out, r.errors)
		}
	})
}

func TestAStepThatIsNotFollowedIsAnErrorAndStays(t *testing.T) {
	inABubble(t, func(w *world) {
		w.joins("op-a", "za")
		w.forbid("update", "/configmaps/")
		began := time.Now()
		r := w.step("advance", "--yes", "--timeout=30s")
		stays, waits := "phase sealed stays on record", "waiting: the ConfigMap is shield, not yet sealed"
		if r.code != exitError || w.phase() != "sealed" || !strings.Contains(r.errors, stays) || !strings.Contains(r.errors, waits) {
			t.Errorf("exit code %d, phase %s: %s%s", r.code, w.phase(), r.out, r.errors)
		}
		if took := time.Since(began); took < 30*time.Second || took > time.Minute {
			t.Errorf("it took %v", took)
		}
		if r := w.step("rollback", "--yes", "--wait=false"); r.code != exitOK || w.phase() != "dual" || strings.Contains(r.errors, "followed") {
			t.Errorf("exit code %d, phase %s: %s%s", r.code, w.phase(), r.out, r.errors)
		}
	})
}

func TestAMigrationThatHasNotBegunIsPlanned(t *testing.T) {
	inABubble(t, func(w *world) {
		w.runs("old-0")
		w.putConfigMap("op", nil, byPod("old-0"))
		golden(t, "plan-legacy", w.step("plan"))
		golden(t, "advance-legacy", w.step("advance", "--yes"))
		if r := w.step("plan", "--legacy-name", "op-lock"); !strings.Contains(r.out, "op-lock") {
			t.Errorf("it plans for another lock: %+v", r)
		}
	})
}

// TestAnElectionRecordIsPlanned: it cannot be sealed.
func TestAnElectionRecordIsPlanned(t *testing.T) {
	inABubble(t, func(w *world) {
		w.elects("old-0_1")
		w.runs("old-0")
		golden(t, "record-legacy", w.run("status", "op"))
		golden(t, "record-plan-first", w.step("plan"))
		w.putLease(newLease("op", "op-a_1", "za", phased(record.PhaseDual, 1), func(l *coordinationv1.Lease) {
			l.Annotations[record.AnnotationLegacy] = "annotation/endpoints/op"
		}))
		w.announce("op", "op-a", "za", "")
		golden(t, "record-plan", w.step("plan"))
	})
}

// TestALockThatNeverWasALegacyLockIsNotMigrated: there is no step to take.
func TestALockThatNeverWasALegacyLockIsNotMigrated(t *testing.T) {
	for verb, code := range map[string]int{
		"plan": exitOK, "advance": exitRefused, "rollback --yes": exitRefused, "clean --dry-run": exitRefused,
	} {
		inABubble(t, func(w *world) {
			w.well()
			r := w.run(append(strings.Fields("migrate "+verb), "op")...)
			if r.code != code || !strings.Contains(r.out, "the lock is a Lease alone") || strings.Contains(r.errors, "--yes") {
				t.Errorf("%s: exit code %d: %s%s", verb, r.code, r.out, r.errors)
			}
		})
	}
}
