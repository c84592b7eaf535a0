// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/inspect"
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
	e.role = r
	all, err := e.connect()
	return cluster{all, inspect.Reader{Core: all.core, Coordination: all.coordination, Explain: r.explained}, r, namespace}, err
}

// lock names a lock in the namespace. People may write it as kubectl writes a Lease.
func (c cluster) lock(name string) types.NamespacedName {
	name = strings.TrimPrefix(strings.TrimPrefix(name, "lease/"), "lease.coordination.k8s.io/")
	return types.NamespacedName{Namespace: c.namespace, Name: name}
}

// scope names the namespace, or all.
func (c cluster) scope() string {
	if c.namespace == "" {
		return "any namespace"
	}
	return "namespace " + c.namespace
}

// noLocks is what people are told where there are none.
const noLocks = "No locks found in %s. Name a lock that no zonelect program uses yet, " +
	"or list all locks with 'kubectl zonelect status -A'.\n"

// absent is the error for a lock that does not exist.
func (c cluster) absent(name string) error {
	return fmt.Errorf("there is no lock %s in namespace %s, neither a Lease nor a leader-for-life ConfigMap: "+
		"check the name and -n, or list all locks with 'kubectl zonelect status -A'; "+
		"the first candidate to campaign creates the Lease", name, c.namespace)
}

// role is a ClusterRole for people: config/people/NAME has zonelect-NAME. Each has all permissions
// that its commands need.
type role string

func (r role) name() string { return "zonelect-" + string(r) }

// creation is the command that creates the role.
func (r role) creation() string {
	return fmt.Sprintf("kubectl apply -k 'https://github.com/zonelect/zonelect//config/people/%s?ref=%s'", string(r), ref())
}

// advice says how to get the permission that a command lacked; empty if it failed
// for another reason.
func (r role) advice(err error) string {
	lacks, is := apierror.MissingIn(err)
	if !is {
		return ""
	}
	kind, where := "clusterrolebinding", ""
	if lacks.Namespace != "" {
		kind, where = "rolebinding", " -n "+lacks.Namespace
	}
	const form = "ClusterRole %[1]s grants that: %[2]s && kubectl create %[3]s %[1]s --clusterrole=%[1]s --user=USER%[4]s"
	return fmt.Sprintf(form, r.name(), r.creation(), kind, where)
}

// explained is an error in the form printed beside a result, with the role that would have
// prevented it.
func (r role) explained(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	if _, is := apierror.MissingIn(err); is {
		text += fmt.Sprintf("; ClusterRole %s grants that", r.name())
	}
	return text
}
