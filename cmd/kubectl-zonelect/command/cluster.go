// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/rawapi"
)

// cluster is the API server as a command sees it.
type cluster struct {
	clients
	inspect.Reader
	role role // grants what the command needs
}

// cluster connects a command that needs the rights of a role.
func (e *environment) cluster(r role) (cluster, error) {
	all, err := e.connect()
	return cluster{all, inspect.Reader{Core: all.core, Coordination: all.coordination, Explain: r.explained}, r}, err
}

// errNamespace says that a namespace does not exist.
var errNamespace = errors.New("check -n, and the namespace of the kubeconfig's context")

// checkNamespace tells a namespace that does not exist from one without locks: a
// list of either is empty. It returns errNamespace, or another error where it
// could not look. All namespaces together, the empty one, exist.
func (c cluster) checkNamespace(ctx context.Context, namespace string) error {
	if namespace == "" {
		return nil
	}
	id := apierror.Object{Resource: apierror.Namespaces, Name: namespace}
	_, err := rawapi.New[corev1.Namespace](c.Core, id).Get(ctx)
	if id.Absent(err) {
		return fmt.Errorf("namespace %s does not exist: %w", namespace, errNamespace)
	}
	return err
}

// nothingIn returns an error where a namespace does not exist, and else what is
// not known about that; empty if it exists.
func (c cluster) nothingIn(ctx context.Context, namespace string) (unknown string, err error) {
	err = c.checkNamespace(ctx, namespace)
	if err == nil || errors.Is(err, errNamespace) {
		return "", err
	}
	return fmt.Sprintf("whether namespace %s exists is not known: %s", namespace, c.role.explained(err)), nil
}

// absent is the error for a lock that does not exist.
func (c cluster) absent(ctx context.Context, namespace, name string) error {
	unknown, err := c.nothingIn(ctx, namespace)
	if err != nil {
		return err
	}
	if unknown != "" {
		unknown = "; " + unknown
	}
	return fmt.Errorf("there is no lock %s in namespace %s, neither a Lease nor a leader-for-life ConfigMap: check the name and -n, or list all locks with 'kubectl zonelect status -A'; a Lease is made when the first candidate campaigns%s", name, namespace, unknown)
}
