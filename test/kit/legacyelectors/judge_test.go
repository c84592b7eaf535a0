// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package legacyelectors

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// owned is a lock with owners, each "Kind/name".
func owned(kind, name string, more ...metav1.OwnerReference) *corev1.ConfigMap {
	owners := append([]metav1.OwnerReference{{APIVersion: "v1", Kind: kind, Name: name, UID: types.UID(name + "-uid")}}, more...)
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "lock", Namespace: "default", OwnerReferences: owners}}
}

// pod is the pod that holds the lock, with changes.
func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "leader", Namespace: "default", UID: "leader-uid"},
		Spec:       corev1.PodSpec{NodeName: "node"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func terminating(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }

func failedFor(reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, reason }
}

func node(ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node"},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
			{Type: corev1.NodeReady, Status: ready},
		}},
	}
}

func TestEachVariantJudgesTheLeaderAsItDidInItsTime(t *testing.T) {
	byPod := owned("Pod", "leader")
	shield := owned("Lease", "lock.a.x", metav1.OwnerReference{Kind: "Lease", Name: "lock.b.x"})
	dead := node(corev1.ConditionUnknown)
	same := func(v verdict) map[Variant]verdict {
		return map[Variant]verdict{Original: v, Stale: v, NotReady: v}
	}
	but := func(v Variant, does verdict) map[Variant]verdict {
		all := same(leave)
		all[v] = does
		return all
	}
	bothMove := map[Variant]verdict{Original: leave, Stale: lockThenPod, NotReady: podThenLock}
	renamed := func(p *corev1.Pod) { p.UID = "other" }
	for _, test := range []struct {
		name string
		lock *corev1.ConfigMap
		pod  *corev1.Pod
		node *corev1.Node
		want map[Variant]verdict
	}{
		{"a pod that runs", byPod, pod(), node(corev1.ConditionTrue), same(leave)},
		{"a pod that is gone", byPod, nil, nil, same(leave)},
		{"a terminating pod", byPod, pod(terminating), node(corev1.ConditionTrue), but(Stale, lockThenPod)},
		{"an evicted pod", byPod, pod(failedFor("Evicted")), node(corev1.ConditionTrue), same(justPod)},
		{"an evicted pod that terminates", byPod, pod(failedFor("Evicted"), terminating), node(corev1.ConditionTrue), but(Stale, lockThenPod)},
		{"a preempted pod", byPod, pod(failedFor("Preempting")), node(corev1.ConditionTrue), but(NotReady, justPod)},
		{"a node of unknown state", byPod, pod(), dead, but(NotReady, podThenLock)},
		{"a node that is gone", byPod, pod(), nil, same(leave)},
		{"a terminating pod on a dead node", byPod, pod(terminating), dead, bothMove},
		{"a pod of the owner's name and another UID", byPod, pod(terminating, renamed), nil, but(Stale, lockThenPod)},
		{"the shield", shield, nil, nil, same(leave)},
		{"the shield, and a terminating pod", shield, pod(terminating), dead, same(leave)},
		{"one owner that is not a pod", owned("Lease", "leader"), pod(terminating), dead, same(leave)},
		{"two pods", owned("Pod", "leader", metav1.OwnerReference{Kind: "Pod", Name: "other"}), pod(terminating), dead, same(leave)},
		{"no owner: sealed", &corev1.ConfigMap{}, pod(terminating), dead, same(leave)},
		{"a lock that was never read", nil, pod(terminating), dead, same(leave)},
	} {
		for v, want := range test.want {
			if got := judge(v, test.lock, test.pod, test.node); got != want {
				t.Errorf("%s, %s: %q, want %q", test.name, v, got, want)
			}
		}
	}
}

func TestAStartingProgramTakesALockOfItsNameForItsOwn(t *testing.T) {
	for name, want := range map[string]bool{"me": true, "you": false, "lock.me.x": false} { // whatever its kind
		if got := ours(owned("Lease", "a", metav1.OwnerReference{Name: name}), "me"); got != want {
			t.Errorf("owned by %s: ours is %v, want %v", name, got, want)
		}
	}
}
