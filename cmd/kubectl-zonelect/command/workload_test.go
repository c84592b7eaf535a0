// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/record"
)

// controls makes a pod, as kind/name, that of a controller. A ReplicaSet ends in its hash.
func controls(controller string, changes ...func(*corev1.Pod)) func(*corev1.Pod, *corev1.Node) {
	return func(pod *corev1.Pod, _ *corev1.Node) {
		kind, name, _ := strings.Cut(controller, "/")
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: "uid", Controller: ptr.To(true)}}
		if i := strings.LastIndex(name, "-"); kind == "ReplicaSet" && i > 0 {
			pod.Labels = map[string]string{"pod-template-hash": name[i+1:]}
		}
		for _, change := range changes {
			change(pod)
		}
	}
}

func ends(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Now()} }

// TestTwoWorkloadsOnOneLockAreNamed, and the parts of a rollout are one workload.
func TestTwoWorkloadsOnOneLockAreNamed(t *testing.T) {
	const two = "the candidates belong to different workloads: Deployment registry-a (2), Deployment registry-b (1): do two programs use one lock name?"
	rollout := controls("ReplicaSet/registry-a-7d4b9c")
	for name, tc := range map[string]struct {
		third func(*corev1.Pod, *corev1.Node)
		phase record.Phase
		want  string // the line of status; doctor says the same
	}{
		"two programs":               {controls("ReplicaSet/registry-b-5f6d8"), "", "warning: op: " + two},
		"the same, in a migration":   {controls("ReplicaSet/registry-b-5f6d8"), record.PhaseDual, "note: op: " + two},
		"the same, after one":        {controls("ReplicaSet/registry-b-5f6d8"), record.PhaseClean, "warning: op: " + two},
		"another kind":               {controls("StatefulSet/registry-a"), "", "warning: op: the candidates belong to different workloads: Deployment registry-a (2), StatefulSet registry-a (1): do two"},
		"a rolling update":           {rollout, "", ""},
		"a move that is almost done": {controls("ReplicaSet/registry-b-5f6d8", ends), "", ""},
		"a pod of nobody":            {func(*corev1.Pod, *corev1.Node) {}, "", ""},
		"a static pod":               {controls("Node/node-a"), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				for pod, zone := range map[string]string{"op-a": "za", "op-b": "zb", "op-c": "zc"} {
					w.announce("op", pod, zone, "")
				}
				w.hosts("op-a", "za", controls("ReplicaSet/registry-a-6c5f8"))
				w.hosts("op-b", "zb", controls("ReplicaSet/registry-a-6c5f8"))
				w.hosts("op-c", "zc", tc.third)
				lease := newLease("op", "op-a_1", "za")
				if tc.phase != "" {
					phased(tc.phase, 1)(lease)
				}
				w.putLease(lease)
				status, doctor := w.run("status", "op"), w.run("doctor", "op")
				for _, r := range []result{status, doctor} {
					if strings.Contains(r.out+r.errors, "different workloads") != (tc.want != "") {
						t.Errorf("it says\n%s%s", r.out, r.errors)
					}
				}
				_, text, _ := strings.Cut(tc.want, ": op: ")
				if !strings.Contains(status.errors, tc.want) || !strings.Contains(doctor.out, text) {
					t.Errorf("status says\n%s\ndoctor says\n%s\nwant %s", status.errors, doctor.out, tc.want)
				}
			})
		})
	}
}

// TestOneWorkloadOnTwoLocksIsNamed: nothing keeps two leaders apart.
func TestOneWorkloadOnTwoLocksIsNamed(t *testing.T) {
	const split = "pods of Deployment op campaign for different locks: "
	for name, tc := range map[string]struct {
		locks map[string][]string // pods, by lock
		want  string
	}{
		"split":                 {map[string][]string{"op": {"op-a", "op-b"}, "po": {"op-c"}}, split + "op (2), po (1)"},
		"a lock for each pod":   {map[string][]string{"op": {"op-a"}, "po": {"op-b"}, "x": {"op-c"}}, split + "op (1), po (1), x (1)"},
		"several locks for all": {map[string][]string{"op": {"op-a", "op-b"}, "po": {"op-b", "op-a"}}, ""},
		"another lock for some": {map[string][]string{"op": {"op-a", "op-b"}, "po": {"op-b"}}, ""},
		"of another workload":   {map[string][]string{"op": {"op-a", "op-b"}, "po": {"x"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				for lock, pods := range tc.locks {
					for _, pod := range pods {
						w.announce(lock, pod, "za", "")
					}
					w.putLease(newLease(lock, pods[0]+"_1", "za"))
				}
				for _, pod := range []string{"op-a", "op-b", "op-c"} {
					w.hosts(pod, "za", controls("ReplicaSet/op-6c5f8"))
				}
				w.hosts("x", "za", controls("ReplicaSet/x-6c5f8"))
				if r := w.run("doctor"); !strings.Contains(r.out, tc.want) || strings.Contains(r.out, split) != (tc.want != "") {
					t.Errorf("it says\n%s%s", r.out, r.errors)
				}
			})
		})
	}
}

// TestALegacyLockOfAnotherNameIsNamed where that of the migration was never led by: before a rollback
// gives two leaders.
func TestALegacyLockOfAnotherNameIsNamed(t *testing.T) {
	const (
		likely = "configmap/op-lock belongs to pod/old-0, which is of a candidate's workload, and no legacy pod is known to have led by configmap/op: the name of the legacy lock may be wrong"
		maybe  = "configmap/op names no legacy pod that led by it: if an older version ran, the name may be wrong"
	)
	for name, tc := range map[string]struct {
		phase  record.Phase
		shield string // who was seen to lead before it; - for no shield
		old    string // the controller of the pod that leads by op-lock
		denied bool
		want   string
	}{
		"a lock that is not there":      {record.PhaseDual, "-", "ReplicaSet/op-7d4b9c", false, "warning: op: " + likely},
		"a shield":                      {record.PhaseDual, "", "ReplicaSet/op-7d4b9c", false, "warning: op: " + likely},
		"of another workload":           {record.PhaseDual, "", "ReplicaSet/other-7d4b9c", false, "note: op: " + maybe},
		"who may not look":              {record.PhaseDual, "", "ReplicaSet/op-7d4b9c", true, "note: op: " + maybe},
		"none, and nobody was seen":     {record.PhaseDual, "", "", false, "note: op: " + maybe},
		"none, and nothing is there":    {record.PhaseDual, "-", "", false, ""},
		"the right name, and a second":  {record.PhaseDual, `[{"name":"old-1","uid":"u"}]`, "ReplicaSet/op-7d4b9c", false, ""},
		"when the migration is over":    {record.PhaseClean, "-", "ReplicaSet/op-7d4b9c", false, ""},
		"when no migration is going on": {"", "-", "ReplicaSet/op-7d4b9c", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				a := w.announce("op", "op-a", "za", "")
				w.hosts("op-a", "za", controls("ReplicaSet/op-6c5f8"))
				lease := newLease("op", "op-a_1", "za")
				if tc.phase != "" {
					phased(tc.phase, 1)(lease)
				}
				w.putLease(lease)
				if tc.shield != "-" {
					w.shield("op", true, 1, a)
					w.server.Change(mapsPath+"op", func(o apitest.Object) {
						o["metadata"].(apitest.Object)["annotations"].(apitest.Object)["zonelect.dev/legacy-pods"] = tc.shield
					})
				}
				if tc.old != "" {
					w.putConfigMap("op-lock", nil, byPod("old-0"))
					w.hosts("old-0", "za", controls(tc.old))
				}
				w.server.Before = func(verb, path string) (int, apitest.Object) {
					if tc.denied && verb == "list" && strings.HasSuffix(path, "/configmaps") {
						return apitest.Forbidden(verb, path)
					}
					return 0, nil
				}
				status, doctor := w.run("status", "op"), w.run("doctor", "op")
				if _, text, _ := strings.Cut(tc.want, ": op: "); !strings.Contains(status.errors, tc.want) || !strings.Contains(doctor.out, text) {
					t.Errorf("status says\n%s\ndoctor says\n%s\nwant %s", status.errors, doctor.out, tc.want)
				}
				if strings.Contains(status.errors+doctor.out, "may be wrong") != (tc.want != "") {
					t.Errorf("status says\n%s\ndoctor says\n%s", status.errors, doctor.out)
				}
			})
		})
	}
}
