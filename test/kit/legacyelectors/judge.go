// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package legacyelectors

import corev1 "k8s.io/api/core/v1"

// Variant is a leader-for-life as some versions had it.
type Variant string

const (
	// Original waits for the garbage collector: pkg/leader of operator-sdk from
	// 0.18.1 on, and operator-lib 0.1.
	Original Variant = "original"
	// Stale judges the owner that it read once, at its start, as operator-sdk
	// 0.13 to 0.18.0 did, and takes that pod's deletionTimestamp as its death.
	Stale Variant = "stale"
	// NotReady treats the pods of a node that is not Ready as dead:
	// operator-lib from 0.2 on. It also treats preempted pods as dead, as 0.13
	// added.
	NotReady Variant = "notready"
)

// verdict is what a program does about a lock that another pod holds.
type verdict string

const (
	leave       verdict = "leave it, and wait"
	justPod     verdict = "delete the pod"
	podThenLock verdict = "delete the pod, then the lock"
	lockThenPod verdict = "delete the lock, then the pod"
)

// ours reports whether a program that starts in the pod of that name considers
// the lock its own, from before it was restarted. Neither UID nor kind of the
// owner matters: all versions did it this way.
func ours(lock *corev1.ConfigMap, podName string) bool {
	for _, owner := range lock.OwnerReferences {
		if owner.Name == podName {
			return true
		}
	}
	return false
}

// ownerPod is the name of the pod that owns the lock. It is empty where no
// version would look for one: there is not exactly one owner, or the owner is
// no Pod.
func ownerPod(lock *corev1.ConfigMap) string {
	if lock == nil || len(lock.OwnerReferences) != 1 || lock.OwnerReferences[0].Kind != "Pod" {
		return ""
	}
	return lock.OwnerReferences[0].Name
}

// judge says what v does about a lock that exists. The pod has the name of the
// lock's owner, whatever its UID, and the node is that pod's; each is nil if
// there is none or it could not be read.
func judge(v Variant, lock *corev1.ConfigMap, pod *corev1.Pod, node *corev1.Node) verdict {
	if ownerPod(lock) == "" || pod == nil {
		return leave
	}
	terminating := pod.DeletionTimestamp != nil
	switch {
	case failed(pod, "Evicted") && !terminating:
		return justPod
	case v == NotReady && failed(pod, "Preempting") && !terminating:
		return justPod
	case v == NotReady && silent(node):
		return podThenLock
	case v == Stale && terminating:
		return lockThenPod
	}
	return leave
}

func failed(pod *corev1.Pod, reason string) bool {
	return pod.Status.Phase == corev1.PodFailed && pod.Status.Reason == reason
}

// silent reports whether a node's Ready condition is false or unknown.
func silent(node *corev1.Node) bool {
	if node == nil {
		return false
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
			return true
		}
	}
	return false
}
