// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodRef returns the reference to a pod that owns an object.
func PodRef(name, uid string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: name, UID: types.UID(uid)}
}

// LeaseRef returns the reference to a Lease that owns an object.
func LeaseRef(name, uid string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Name: name, UID: types.UID(uid)}
}

// ConfigMap returns a ConfigMap in the place of a leader-for-life lock, with the UID "u" at version 7.
func ConfigMap(annotations map[string]string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "lock", Namespace: "ns", UID: "u", ResourceVersion: "7",
		Annotations: annotations, OwnerReferences: owners,
	}}
}
