// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apierror explains an answer of the API server: what was tried, which sentinel of
// package election fits, and what to do.
//
// Every error that [Object.Explain] returns has the method Timeout() bool, which says whether
// time ran out, here or at the server. If the server answered, it wraps an APIStatus of
// k8s.io/apimachinery/pkg/api/errors.
package apierror

import "strings"

// Resource is one resource of the API.
type Resource struct {
	Group   string // empty for the core group
	Version string
	Name    string // as RBAC calls it, such as "leases"
	Kind    string // of one object, such as "Lease"
}

// The resources that hold locks, and those that say who may hold one.
var (
	Leases     = Resource{Group: "coordination.k8s.io", Version: "v1", Name: "leases", Kind: "Lease"}
	ConfigMaps = Resource{Version: "v1", Name: "configmaps", Kind: "ConfigMap"}
	Endpoints  = Resource{Version: "v1", Name: "endpoints", Kind: "Endpoints"}
	Pods       = Resource{Version: "v1", Name: "pods", Kind: "Pod"}
	Nodes      = Resource{Version: "v1", Name: "nodes", Kind: "Node"}

	Deployments = Resource{Group: "apps", Version: "v1", Name: "deployments", Kind: "Deployment"}
	ReplicaSets = Resource{Group: "apps", Version: "v1", Name: "replicasets", Kind: "ReplicaSet"}

	SubjectAccessReviews = Resource{Group: "authorization.k8s.io", Version: "v1", Name: "subjectaccessreviews", Kind: "SubjectAccessReview"}
)

// String returns the resource with its group, such as
// "leases.coordination.k8s.io".
func (r Resource) String() string { return join(r.Name, ".", r.Group) }

// GroupVersion returns "group/version", or the version alone for the core
// group.
func (r Resource) GroupVersion() string { return join(r.Group, "/", r.Version) }

// Object names the target of a request: one object, or all of a resource in a namespace if
// Name is empty. Namespace is empty for cluster-wide objects and requests.
type Object struct {
	Resource
	Namespace, Name string
}

// String names the object for people, such as "lease ns/name".
func (o Object) String() string {
	if o.Name == "" && o.Namespace != "" {
		return o.Resource.Name + " in namespace " + o.Namespace
	}
	if o.Name == "" {
		return o.Resource.Name
	}
	return strings.ToLower(o.Kind) + " " + join(o.Namespace, "/", o.Name)
}

// join puts sep between a and b unless one is empty.
func join(a, sep, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + sep + b
}
