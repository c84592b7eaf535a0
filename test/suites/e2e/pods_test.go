// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/zonelect/zonelect/test/kit/testbed"
)

// processOf is the process that runs the program of a pod's first container in a zone, with its
// arguments, its environment, and the token of its service account that is bound to it, as a kubelet
// would.
func processOf(
	ctx context.Context, b *testbed.Testbed, client kubernetes.Interface, pod *corev1.Pod, zone, program string,
) (testbed.ProcessSpec, error) {
	spec := testbed.ProcessSpec{Name: pod.Name, Path: program, Args: pod.Spec.Containers[0].Args}
	bound := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	accounts := client.CoreV1().ServiceAccounts(pod.Namespace)
	token, err := accounts.CreateToken(ctx, pod.Spec.ServiceAccountName, bound, metav1.CreateOptions{})
	if err != nil {
		return spec, err
	}
	config, err := clientcmd.LoadFromFile(b.Cluster.Kubeconfig(zone))
	if err != nil {
		return spec, err
	}
	own := filepath.Join(b.Dir(), pod.Name)
	for user := range config.AuthInfos {
		config.AuthInfos[user] = &clientcmdapi.AuthInfo{TokenFile: own + ".token"}
	}
	spec.Env = append(environOf(pod), "KUBECONFIG="+own+".kubeconfig", "KUBERNETES_SERVICE_HOST=127.0.0.1")
	return spec, errors.Join(
		os.WriteFile(own+".token", []byte(token.Status.Token), 0o600),
		clientcmd.WriteToFile(*config, own+".kubeconfig"),
	)
}

// environOf is the environment of a pod's first container, with nothing of what this test's own machine says.
func environOf(pod *corev1.Pod) (all []string) {
	for _, ours := range []string{"POD_NAME", "POD_UID", "POD_NAMESPACE", "NODE_NAME", "NODE_ZONE"} {
		all = append(all, ours+"=")
	}
	fields := map[string]string{
		"metadata.name": pod.Name, "metadata.uid": string(pod.UID), "metadata.namespace": pod.Namespace,
		"spec.nodeName": pod.Spec.NodeName,
	}
	for key, value := range pod.Labels {
		fields["metadata.labels['"+key+"']"] = value
	}
	for _, e := range pod.Spec.Containers[0].Env {
		value := e.Value
		if e.ValueFrom != nil {
			value = fields[e.ValueFrom.FieldRef.FieldPath]
		}
		all = append(all, e.Name+"="+value)
	}
	return all
}
