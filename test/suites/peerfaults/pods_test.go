// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package peerfaults_test

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/internal/apitest"
)

const podsPath = "/api/v1/namespaces/ns/pods/"

// isPod says which objects stay when they are deleted: no kubelet reports that
// a pod on a cut-off node has ended.
func isPod(path string) bool { return strings.HasPrefix(path, podsPath) }

// settle gives c a pod, on a node of its own.
func (c *candidate) settle() {
	c.stage.server.Put(podsPath+c.name, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: c.name, UID: c.uid},
		Spec:       corev1.PodSpec{NodeName: c.name},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	})
	c.node(corev1.ConditionTrue)
}

// node sets whether c's node is Ready.
func (c *candidate) node(ready corev1.ConditionStatus) {
	c.stage.server.Put("/api/v1/nodes/"+c.name, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: c.name},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
	})
}

// crash ends c as SIGKILL does: none of its requests arrives after that.
func (c *candidate) crash() {
	c.cut()
	c.cancel()
	c.stage.pass(0)
}

// die ends c with its node. The node's pods are deleted minutes later, and
// stay.
func (c *candidate) die() {
	c.crash()
	c.stage.pass(45 * time.Second)
	c.node(corev1.ConditionUnknown)
	c.stage.pass(5 * time.Minute)
	c.stage.server.Change(podsPath+c.name, func(o apitest.Object) {
		o["metadata"].(apitest.Object)["deletionTimestamp"] = time.Now().UTC().Format(time.RFC3339)
	})
}
