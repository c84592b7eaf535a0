// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Right is one verb on one resource, or on one object of it.
type Right struct{ Verb, Group, Resource, Namespace, Name string }

func (r Right) String() string {
	s := r.Verb + " " + r.Resource
	if r.Group != "" {
		s += "." + r.Group
	}
	return s
}

// RightsOf returns the rights in the rules of a Role.
func RightsOf(namespace string, rules []rbacv1.PolicyRule) (all []Right) {
	for _, r := range rules {
		name := ""
		if len(r.ResourceNames) > 0 {
			name = r.ResourceNames[0]
		}
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					all = append(all, Right{verb, group, resource, namespace, name})
				}
			}
		}
	}
	return all
}

// Granted returns the rights in all Roles and ClusterRoles.
func Granted(t testing.TB, objects Objects) (all []Right) {
	t.Helper()
	for _, role := range Pick[rbacv1.Role](t, objects, "Role") {
		all = append(all, RightsOf(role.Namespace, role.Rules)...)
	}
	for _, role := range Pick[rbacv1.ClusterRole](t, objects, "ClusterRole") {
		all = append(all, RightsOf("", role.Rules)...)
	}
	return all
}
