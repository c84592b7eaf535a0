// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestTheLastLeaderLosesTheLabelFirst: the Service never selects two pods.
func TestTheLastLeaderLosesTheLabelFirst(t *testing.T) {
	pod := func(name string, leader bool) *corev1.Pod {
		labels := map[string]string{"app": "my-operator"}
		if leader {
			labels[leads] = "true"
		}
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: labels}}
	}
	client := fake.NewClientset(pod("op-a", true), pod("op-b", false), pod("op-c", false))
	if err := label(t.Context(), client.CoreV1().Pods("ns"), "op-b"); err != nil {
		t.Fatal(err)
	}
	var patched []string
	for _, a := range client.Actions() {
		if p, is := a.(clienttesting.PatchAction); is {
			patched = append(patched, p.GetName())
		}
	}
	if !slices.Equal(patched, []string{"op-a", "op-b"}) {
		t.Errorf("the pods %q were patched", patched)
	}
	labeled, err := client.CoreV1().Pods("ns").List(t.Context(), metav1.ListOptions{LabelSelector: leads + "=true"})
	if err != nil || len(labeled.Items) != 1 || labeled.Items[0].Name != "op-b" {
		t.Errorf("labeled are %v, error %v", labeled, err)
	}
}
