// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ownerref_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/locks/ownerref"
)

// Is this ConfigMap a leader-for-life lock, and whose?
func ExampleRecognize() {
	lock := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "my-operator-lock", UID: "c1", ResourceVersion: "7",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "my-operator-1", UID: "p1"}},
	}}
	r := ownerref.Recognize(lock)
	fmt.Println(r.Kind, "of", r.Owner)
	// Output:
	// legacy of my-operator-1/p1
}
