// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/zonelect/zonelect/test/kit/testbed"
)

// processOf is the process that runs the program of a pod's first container on a node, with its
// arguments, its environment, and the token of its service account that is bound to it, as a kubelet
// would. It reaches the API server as the kubeconfig says. Files are in dir.
func processOf(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, node, program, kubeconfig, dir string) (testbed.ProcessSpec, error) {
	spec := testbed.ProcessSpec{Name: pod.Name, Path: program, Args: pod.Spec.Containers[0].Args}
	own, err := withToken(ctx, client, pod, kubeconfig, dir)
	if err != nil {
		return spec, err
	}
	spec.Env = []string{"KUBECONFIG=" + own, "KUBERNETES_SERVICE_HOST=127.0.0.1"}
	for _, ours := range []string{"POD_NAME", "POD_UID", "POD_NAMESPACE", "NODE_NAME", "NODE_ZONE"} {
		spec.Env = append(spec.Env, ours+"=") // what this test's own machine says
	}
	fields := map[string]string{
		"metadata.name": pod.Name, "metadata.uid": string(pod.UID), "metadata.namespace": pod.Namespace, "spec.nodeName": node,
	}
	for key, value := range pod.Labels {
		fields["metadata.labels['"+key+"']"] = value
	}
	for _, e := range pod.Spec.Containers[0].Env {
		value := e.Value
		if e.ValueFrom != nil {
			value = fields[e.ValueFrom.FieldRef.FieldPath]
		}
		spec.Env = append(spec.Env, e.Name+"="+value)
	}
	return spec, nil
}

// withToken writes a kubeconfig that differs from that in a file only in who asks: the service account of
// a pod, by a token that is bound to the pod.
func withToken(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, kubeconfig, dir string) (file string, err error) {
	account := pod.Spec.ServiceAccountName
	token, err := client.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	tokenFile := filepath.Join(dir, pod.Name+".token")
	if err := os.WriteFile(tokenFile, []byte(token.Status.Token), 0o600); err != nil {
		return "", err
	}
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return "", err
	}
	for user := range config.AuthInfos {
		config.AuthInfos[user] = &clientcmdapi.AuthInfo{TokenFile: tokenFile}
	}
	file = filepath.Join(dir, pod.Name+"-"+strings.TrimSuffix(filepath.Base(kubeconfig), ".kubeconfig")+"-bound.kubeconfig")
	return file, clientcmd.WriteToFile(*config, file)
}
