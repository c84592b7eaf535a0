// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"net/http"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/internal/doctor"
	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// read reads something, or says why it cannot be read.
func read[T any](c cluster, do func() (T, error)) doctor.Fact[T] {
	value, err := do()
	if err != nil {
		return doctor.Fact[T]{Unknown: c.role.explained(err)}
	}
	return doctor.Fact[T]{Value: value}
}

// legacyPod reads the state of the pod that holds a leader-for-life lock; empty if none does.
func (c cluster) legacyPod(ctx context.Context, e inspect.Election) doctor.Fact[string] {
	if e.Legacy == nil || e.Legacy.Kind != ownerref.Legacy {
		return doctor.Fact[string]{}
	}
	return read(c, func() (string, error) {
		name := strings.TrimPrefix(e.Legacy.Holder, "pod/")
		return c.PodState(ctx, e.Namespace, name)
	})
}

// rightsOf asks the API server what others may do.
func (c cluster) rightsOf(ctx context.Context, needs []doctor.Right) doctor.Fact[[]doctor.Right] {
	return read(c, func() ([]doctor.Right, error) {
		for i := range needs {
			var err error
			if needs[i].Allowed, err = c.allowed(ctx, needs[i]); err != nil {
				return nil, err
			}
		}
		return needs, nil
	})
}

// allowed asks for one permission of a service account.
func (c cluster) allowed(ctx context.Context, r doctor.Right) (bool, error) {
	const accounts = "system:serviceaccounts"
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   "system:serviceaccount:" + r.Namespace + ":" + r.Account,
		Groups: []string{accounts, accounts + ":" + r.Namespace, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: r.Namespace, Verb: r.Verb, Group: r.Group, Version: "v1", Resource: r.Resource, Name: r.Name,
		},
	}}
	answer := &authorizationv1.SubjectAccessReview{}
	err := rawapi.Request(c.authorization, http.MethodPost, apierror.SubjectAccessReviews, "").Body(review).Do(ctx).Into(answer)
	if err == nil && answer.Status.EvaluationError != "" && !answer.Status.Allowed {
		err = errors.New(answer.Status.EvaluationError)
	}
	return answer.Status.Allowed, apierror.Object{Resource: apierror.SubjectAccessReviews}.Explain(apierror.Create, err)
}
