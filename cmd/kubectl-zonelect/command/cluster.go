// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/rawapi"
)

// cluster is the API server as a command sees it.
type cluster struct {
	clients
	inspect.Reader
	role      role   // grants what the command needs
	namespace string // empty for all
}

// cluster connects a command that needs the rights of a role, for the namespace
// that the flags and the kubeconfig choose, or for all of them.
func (e *environment) cluster(r role, everywhere bool) (cluster, error) {
	namespace, _, err := e.config.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return cluster{}, fmt.Errorf("choose the namespace: %w", err)
	}
	if everywhere {
		namespace = ""
	}
	all, err := e.connect()
	return cluster{all, inspect.Reader{Core: all.core, Coordination: all.coordination, Explain: r.explained}, r, namespace}, err
}

// zones finds the zones of candidates that do not know them.
func (c cluster) zones() *inspect.Zones { return &inspect.Zones{Reader: c.Reader} }

// lock names a lock in the namespace.
func (c cluster) lock(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: c.namespace, Name: name}
}

// scope names the namespace, or all.
func (c cluster) scope() string {
	if c.namespace == "" {
		return "any namespace"
	}
	return "namespace " + c.namespace
}

// checkNamespace tells a namespace that does not exist from one without locks, because a list
// of either is empty. It returns an error if the namespace does not exist. If it could not
// check, it says so after a prefix; otherwise unknown is empty.
func (c cluster) checkNamespace(ctx context.Context, prefix string) (unknown string, err error) {
	if c.namespace == "" {
		return "", nil
	}
	absent, err := c.hasNoNamespace(ctx)
	switch {
	case absent:
		return "", fmt.Errorf("namespace %s does not exist: check -n, and the namespace of the kubeconfig's context", c.namespace)
	case err == nil:
		return "", nil
	}
	return fmt.Sprintf("%scannot tell whether namespace %s exists: %s", prefix, c.namespace, c.role.explained(err)), nil
}

// absent is the error for a lock that does not exist.
func (c cluster) absent(ctx context.Context, name string) error {
	unknown, err := c.checkNamespace(ctx, "; ")
	if err != nil {
		return err
	}
	return fmt.Errorf("there is no lock %s in namespace %s, neither a Lease nor a leader-for-life ConfigMap: check the name and -n, or list all locks with 'kubectl zonelect status -A'; the first candidate to campaign creates the Lease%s", name, c.namespace, unknown)
}

// hasNoNamespace reports whether the namespace does not exist.
func (c cluster) hasNoNamespace(ctx context.Context) (bool, error) {
	id := apierror.Object{Resource: apierror.Namespaces, Name: c.namespace}
	_, err := rawapi.New[corev1.Namespace](c.Core, id).Get(ctx)
	if id.Absent(err) {
		return true, nil
	}
	return false, err
}
