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

// ConfigMaps are legacy locks, shields and others as JSON, from which fuzz tests begin.
var ConfigMaps = []string{
	`{"metadata":{"name":"op","uid":"c","resourceVersion":"7","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"u"}]}}`,
	`{"metadata":{"uid":"c","annotations":{"zonelect.dev/shield-armed":"c","zonelect.dev/phase":"dual","zonelect.dev/phase-step":"1","zonelect.dev/legacy-pods":"[{\"name\":\"a\",\"uid\":\"u\"},{\"name\":\"b\",\"uid\":\"v\"}]","zonelect.dev/presumed-gone":"[{\"name\":\"a\",\"uid\":\"u\"}]"},"ownerReferences":[{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","name":"op.a","uid":"p"}]}}`,
	`{"metadata":{"uid":"c","annotations":{"zonelect.dev/shield-armed":"true","zonelect.dev/phase":"sealed","zonelect.dev/phase-step":"3"}}}`,
	`{"metadata":{"annotations":{"zonelect.dev/shield-armed":""}}}`,
	`{"metadata":{"uid":"c","annotations":{"team":"a"}}}`,
	`{"metadata":{"annotations":{"control-plane.alpha.kubernetes.io/leader":"{}"},"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"u"}]}}`,
	`{"metadata":{"ownerReferences":[{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","uid":"p"},{"apiVersion":"v1","kind":"Pod","uid":"u"}]},"data":{"a":"b"}}`,
}
