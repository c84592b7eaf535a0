// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/test/kit/manifests"
)

// user is somebody with a name.
func user(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
}

// serviceAccount is a service account.
func serviceAccount(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
}

// userName is how the API server knows a subject.
func userName(of rbacv1.Subject) string {
	if of.Kind == rbacv1.ServiceAccountKind {
		return "system:serviceaccount:" + of.Namespace + ":" + of.Name
	}
	return of.Name
}

// rule is one of a Role.
func rule(group string, resources, verbs []string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs, ResourceNames: names}
}

// allow gives somebody these rights in a namespace, or in all if it is empty, and takes away those that it gave by
// this name before. It returns when the authorizer of the client's server knows them.
func allow(t *testing.T, client kubernetes.Interface, namespace, name string, to rbacv1.Subject, rules ...rbacv1.PolicyRule) {
	t.Helper()
	// An update creates what is not there.
	ctx, rbac, options := t.Context(), client.RbacV1(), metav1.UpdateOptions{}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	ref, subjects := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}, []rbacv1.Subject{to}
	if namespace == "" {
		ref.Kind = "ClusterRole"
		_, err := rbac.ClusterRoles().Update(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, options)
		must(t, err)
		_, err = rbac.ClusterRoleBindings().Update(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}, options)
		must(t, err)
	} else {
		_, err := rbac.Roles(namespace).Update(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules}, options)
		must(t, err)
		_, err = rbac.RoleBindings(namespace).Update(ctx, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}, options)
		must(t, err)
	}
	for _, right := range manifests.RightsOf(namespace, rules) {
		until(t, userName(to)+" may "+right.String(), func() bool { return may(t, client, userName(to), right) })
	}
}

// may asks the API server whether a user has the right.
func may(t *testing.T, client kubernetes.Interface, user string, p manifests.Right) bool {
	t.Helper()
	answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: p.Namespace, Verb: p.Verb, Group: p.Group, Resource: p.Resource, Name: p.Name,
			},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	return answer.Status.Allowed
}
