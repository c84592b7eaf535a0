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

// RESTConfig returns the config of the API server. It uses the first of these that exists:
//
//  1. the kubeconfig at path, if that is not empty;
//  2. the kubeconfig files in the environment variable KUBECONFIG;
//  3. the service account of the pod that this process runs in;
//  4. the kubeconfig at ~/.kube/config.
func RESTConfig(path string) (*rest.Config, error) {
	env := os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	var inCluster error
	if path == "" && env == "" {
		cfg, err := inClusterConfig()
		if err == nil {
			return cfg, nil
		}
		if !errors.Is(err, rest.ErrNotInCluster) {
			inCluster = fmt.Errorf("as a pod: %w", err)
		}
	}
	cfg, err := kubeconfig(path).ClientConfig()
	if err != nil {
		tried := "a pod's service account, ~/.kube/config"
		switch {
		case path != "":
			tried = fmt.Sprintf("kubeconfig %q", path)
		case env != "":
			tried = fmt.Sprintf("KUBECONFIG=%q", env)
		}
		return nil, fmt.Errorf("finding the API server (%s): %w: set KUBECONFIG to a file that exists, or run without an election "+
			"by --leader-elect=false (operator.Options.Disabled)", tried, errors.Join(err, inCluster))
	}
	return cfg, nil
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
