// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// RESTConfig returns the config of the API server and the namespace to work in. It uses the
// first of these that exists:
//
//  1. the kubeconfig at kubeconfigPath, if that is not empty;
//  2. the kubeconfig files in the environment variable KUBECONFIG;
//  3. the service account of the pod that this process runs in;
//  4. the kubeconfig at ~/.kube/config.
//
// The namespace is that of the kubeconfig's current context ("default" if the context names
// none), or of the pod. It is empty in a pod that does not know its own namespace; set
// POD_NAMESPACE to fix that.
func RESTConfig(kubeconfigPath string) (cfg *rest.Config, namespace string, err error) {
	var inCluster error
	if kubeconfigPath == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		cfg, inCluster = inClusterConfig()
		if inCluster == nil {
			return cfg, podNamespace(), nil
		}
	}
	loader := kubeconfig(kubeconfigPath)
	if cfg, err = loader.ClientConfig(); err != nil {
		if inCluster != nil && !errors.Is(inCluster, rest.ErrNotInCluster) {
			err = errors.Join(err, fmt.Errorf("as a pod: %w", inCluster))
		}
		return nil, "", fmt.Errorf("finding the way to the API server (%s): %w: set KUBECONFIG to a file that exists, or run without an election by --leader-elect=false (operator.Options.Disabled)", tried(kubeconfigPath), err)
	}
	if namespace, _, err = loader.Namespace(); err != nil {
		return nil, "", fmt.Errorf("reading the namespace (%s): %w", tried(kubeconfigPath), err)
	}
	return cfg, namespace, nil
}

// kubeconfig returns a loader that reads the file at path, or else the usual ones.
func kubeconfig(path string) clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{})
}

// kubeconfigUser returns the user and the namespace of the current context, or two empty strings
// without a kubeconfig that can be read.
func kubeconfigUser() (user, namespace string) {
	raw, err := kubeconfig("").RawConfig()
	if err != nil {
		return "", ""
	}
	current, ok := raw.Contexts[raw.CurrentContext]
	if !ok {
		return "", ""
	}
	return current.AuthInfo, cmp.Or(current.Namespace, metav1.NamespaceDefault)
}

// tried says where RESTConfig looked, for error messages.
func tried(path string) string {
	if path != "" {
		return "kubeconfig " + path
	}
	if env := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); env != "" {
		return "KUBECONFIG=" + env
	}
	return "KUBECONFIG is not set, this is not a pod with a service account, and ~/.kube/config"
}
