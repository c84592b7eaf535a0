// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/zonelect/zonelect/test/kit/testbed"
)

// processOf is the process that runs the program of a pod's first container on a node, with its
// arguments and its environment, as a kubelet would.
func processOf(pod *corev1.Pod, node, ip, program, kubeconfig string) testbed.ProcessSpec {
	fields := map[string]string{
		"metadata.name": pod.Name, "metadata.uid": string(pod.UID), "metadata.namespace": pod.Namespace, "spec.nodeName": node, "status.podIP": ip,
	}
	container := pod.Spec.Containers[0]
	spec := testbed.ProcessSpec{Name: pod.Name, Path: program, Args: container.Args, Env: []string{"KUBECONFIG=" + kubeconfig}}
	for _, e := range container.Env {
		value := e.Value
		if e.ValueFrom != nil {
			value = fields[e.ValueFrom.FieldRef.FieldPath]
		}
		spec.Env = append(spec.Env, e.Name+"="+value)
	}
	return spec
}
