// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/internal/doctor"
	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/locks"
)

// before reads what matters before an operator is installed whose pods have that account. It tries
// nothing on an API server that may not know trials.
func (c cluster) before(ctx context.Context, lock, account string) doctor.Pre {
	p := doctor.Pre{
		Namespace: c.namespace, Lock: lock, Account: account,
		Minor:   readSoon(ctx, c, func(ctx context.Context) (int, error) { return rawapi.ServerMinor(ctx, c.core) }),
		Absent:  readSoon(ctx, c, c.hasNoNamespace),
		Zones:   readSoon(ctx, c, c.ZonesWithNodes),
		Outside: readSoon(ctx, c, c.hasNodesOutside),
		Rights: readSoon(ctx, c, func(ctx context.Context) ([]doctor.Right, error) {
			return c.askedOf(ctx, doctor.LeaseRights(account, c.namespace, lock, false))
		}),
	}
	if p.Absent.Value || !p.Tries() {
		return p
	}
	p.Taken = readSoon(ctx, c, func(ctx context.Context) (string, error) {
		lease, err := c.Lease(ctx, c.lock(lock))
		if err != nil || lease == nil {
			return "", err
		}
		return cmp.Or(ptr.Deref(lease.Spec.HolderIdentity, ""), "nobody"), nil
	})
	ctx, cancel := context.WithTimeout(ctx, longestWrite)
	defer cancel()
	p.Refused = c.tryGrant(ctx, lock, account)
	return p
}

// readSoon reads something, for as long as one of the doctor's requests may take.
func readSoon[T any](ctx context.Context, c cluster, do func(context.Context) (T, error)) doctor.Fact[T] {
	ctx, cancel := context.WithTimeout(ctx, longestRequest)
	defer cancel()
	return read(c, func() (T, error) { return do(ctx) })
}

// hasNodesOutside reports whether there are nodes without a zone.
func (c cluster) hasNodesOutside(ctx context.Context) (bool, error) {
	list := &corev1.NodeList{}
	err := rawapi.Request(c.core, http.MethodGet, apierror.Nodes, "").Param("labelSelector", "!"+corev1.LabelTopologyZone).Param("limit", "1").Do(ctx).Into(list)
	return len(list.Items) > 0, apierror.Object{Resource: apierror.Nodes}.Explain(apierror.List, err)
}

// tryGrant tries to create the Role of candidates, which changes nothing, and asks whether this user
// may bind it. It returns what was refused; empty if nothing was. Who has a Role of that name needs the
// right to change it.
func (c cluster) tryGrant(ctx context.Context, lock, account string) (refused string) {
	needs := []authorizationv1.ResourceAttributes{{Verb: apierror.Create, Resource: "rolebindings"}}
	r := candidatesRole(c.namespace, account, lock)
	id := apierror.Object{Resource: apierror.Roles, Namespace: r.Namespace, Name: r.Name}
	err := rawapi.Request(c.rbac, http.MethodPost, id.Resource, id.Namespace).Param("dryRun", metav1.DryRunAll).Body(r).Do(ctx).Error()
	switch err = id.Explain(apierror.Create, err); {
	case errors.Is(err, locks.ErrConflict):
		needs = append(needs, authorizationv1.ResourceAttributes{Verb: "patch", Resource: "roles", Name: id.Name})
	case err != nil:
		return role("").explained(err)
	}
	if c.may(ctx, authorizationv1.ResourceAttributes{Verb: "escalate", Resource: "roles", Name: id.Name}) == "" { // it passes without the rights themselves
		needs = append(needs, authorizationv1.ResourceAttributes{Verb: "bind", Resource: "roles", Name: id.Name})
	}
	for _, need := range needs {
		if refused := c.may(ctx, need); refused != "" {
			return refused
		}
	}
	return ""
}

// candidatesRole is the Role of config/operator/lease.
func candidatesRole(namespace, account, lock string) *rbacv1.Role {
	return &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "zonelect-lease-" + account},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "list", "create", "update", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}},
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{lock}, Verbs: []string{"get"}},
		},
	}
}

// permits asks whether this user may do something in the namespace.
func (c cluster) permits(ctx context.Context, what authorizationv1.ResourceAttributes) (bool, error) {
	what.Namespace = c.namespace
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &what}}
	answer := &authorizationv1.SelfSubjectAccessReview{}
	err := rawapi.Request(c.authorization, http.MethodPost, apierror.AccessReviews, "").Body(review).Do(ctx).Into(answer)
	return answer.Status.Allowed, apierror.Object{Resource: apierror.AccessReviews}.Explain(apierror.Create, err)
}

// may says why this user may not do something with Roles and what binds them; empty if it may.
func (c cluster) may(ctx context.Context, what authorizationv1.ResourceAttributes) (refused string) {
	what.Group, what.Version = apierror.Roles.Group, apierror.Roles.Version
	switch allowed, err := c.permits(ctx, what); {
	case err != nil:
		return role("").explained(err)
	case !allowed:
		return "you may not " + what.Verb + " " + what.Resource + " in namespace " + c.namespace
	}
	return ""
}
