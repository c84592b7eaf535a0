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
		want  string // the line of status; doctor has the warnings
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
				if !strings.Contains(status.errors, tc.want) || strings.Contains(status.errors, "different workloads") != (tc.want != "") {
					t.Errorf("status says\n%s\nwant %s", status.errors, tc.want)
				}
				if strings.Contains(doctor.out, "different workloads") != strings.HasPrefix(tc.want, "warning") {
					t.Errorf("doctor says\n%s\nstatus %s", doctor.out, tc.want)
				}
			})
		})
	}
}
