// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// objectFaults are what people and programs do to the objects of an election
// and its permissions.
var objectFaults = []fault{
	{name: "rights-revoked", lasts: anOutage, asks: true, inject: rightsRevoked, ends: settle},
	{name: "lease-deleted", lasts: aMoment, asks: true, inject: leaseDeleted},
	{name: "lease-garbled", lasts: aTakeover, asks: true, inject: leaseGarbled},
	{name: "configmap-deleted", lasts: aMoment, asks: true, inject: configMapDeleted},
	{name: "configmap-garbled", lasts: aTakeover, asks: true, inject: configMapGarbled},
}

func leaseDeleted(ctx context.Context, s *stage, _ *rand.Rand) (cure, error) {
	return nil, s.each(func(g *group) error {
		return s.ask(ctx, func(ctx context.Context, c kubernetes.Interface) error {
			return c.CoordinationV1().Leases(s.namespace).Delete(ctx, g.name, metav1.DeleteOptions{})
		})
	})
}

const garbage = "{\x00\u202e\"zonelect\":[-1e999,"

// leaseEdits are manual edits of a Lease. None makes it expire sooner than its
// holder believes: anybody who may do that may also lead.
var leaseEdits = []func(*coordinationv1.Lease){
	func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new(string) },
	func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil },
	func(l *coordinationv1.Lease) { l.Spec = coordinationv1.LeaseSpec{} },
	func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("somebody") },
	func(l *coordinationv1.Lease) { l.Spec.RenewTime, l.Spec.AcquireTime = nil, nil },
	func(l *coordinationv1.Lease) { l.Annotations = nil },
	func(l *coordinationv1.Lease) { l.Annotations, l.Spec = nil, coordinationv1.LeaseSpec{} }, // as kubectl replace does
	func(l *coordinationv1.Lease) {
		for name := range l.Annotations {
			l.Annotations[name] = garbage
		}
		l.Labels = map[string]string{"zonelect.dev/lock": "another"}
	},
	func(l *coordinationv1.Lease) { l.Spec.LeaseTransitions = new(int32) },
	func(l *coordinationv1.Lease) {
		l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "gone", UID: "gone"}}
	},
}

func leaseGarbled(ctx context.Context, s *stage, dice *rand.Rand) (cure, error) {
	edit := leaseEdits[dice.IntN(len(leaseEdits))]
	return nil, s.each(func(g *group) error {
		return s.ask(ctx, func(ctx context.Context, c kubernetes.Interface) error {
			leases := c.CoordinationV1().Leases(s.namespace)
			l, err := leases.Get(ctx, g.name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			edit(l)
			_, err = leases.Update(ctx, l, metav1.UpdateOptions{})
			return err
		})
	})
}

func configMapDeleted(ctx context.Context, s *stage, _ *rand.Rand) (cure, error) {
	return nil, s.ask(ctx, func(ctx context.Context, c kubernetes.Interface) error {
		return c.CoreV1().ConfigMaps(s.namespace).Delete(ctx, onShield, metav1.DeleteOptions{})
	})
}

// configMapEdits are manual edits of a shield.
var configMapEdits = []func(*corev1.ConfigMap){
	func(m *corev1.ConfigMap) { m.OwnerReferences = nil },
	func(m *corev1.ConfigMap) { m.Annotations = nil },
	func(m *corev1.ConfigMap) { m.OwnerReferences, m.Annotations = nil, nil },
	func(m *corev1.ConfigMap) { m.Data = map[string]string{"leader": garbage} },
	func(m *corev1.ConfigMap) {
		for name := range m.Annotations {
			m.Annotations[name] = garbage
		}
	},
	func(m *corev1.ConfigMap) { m.OwnerReferences = m.OwnerReferences[:len(m.OwnerReferences)/2] },
}

func configMapGarbled(ctx context.Context, s *stage, dice *rand.Rand) (cure, error) {
	edit := configMapEdits[dice.IntN(len(configMapEdits))]
	return nil, s.ask(ctx, func(ctx context.Context, c kubernetes.Interface) error {
		maps := c.CoreV1().ConfigMaps(s.namespace)
		m, err := maps.Get(ctx, onShield, metav1.GetOptions{})
		if err != nil {
			return err
		}
		edit(m)
		_, err = maps.Update(ctx, m, metav1.UpdateOptions{})
		return err
	})
}

// rightsRevoked takes away all rights of config/ except that to write the
// register: a leader that works on would be seen.
func rightsRevoked(ctx context.Context, s *stage, _ *rand.Rand) (cure, error) {
	err := s.each(func(g *group) error {
		for _, name := range g.roles {
			err := s.ask(ctx, func(ctx context.Context, c kubernetes.Interface) error {
				err := c.RbacV1().RoleBindings(s.namespace).Delete(ctx, g.name+"-"+name, metav1.DeleteOptions{})
				if apierrors.IsNotFound(err) {
					return nil
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		return s.permitted(ctx, g, false)
	})
	return func(ctx context.Context) error {
		return s.each(func(g *group) error {
			if err := s.grant(ctx, g); err != nil {
				return err
			}
			return s.permitted(ctx, g, true)
		})
	}, err
}

// permitted waits until the authorizer knows what a group's user may do.
func (s *stage) permitted(ctx context.Context, g *group, allowed bool) error {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: s.user(g), ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: s.namespace, Verb: "update", Group: "coordination.k8s.io", Resource: "leases",
		},
	}}
	err := s.ask(ctx, func(ctx context.Context, c kubernetes.Interface) error {
		answer, err := c.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err == nil && answer.Status.Allowed != allowed {
			err = errors.New("the authorizer does not know it yet")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%w: wait until the rights of %s are known: %w", errMissed, g.name, err)
	}
	return nil
}
