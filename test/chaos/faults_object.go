// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"math/rand/v2"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// objectFaults are what people and programs do to the objects and the rights of
// an election.
var objectFaults = []fault{
	{
		name: "lease-deleted", about: "Lease deleted",
		lasts: aMoment, inject: leaseDeleted, promise: untouched,
	},
}

func leaseDeleted(ctx context.Context, s *stage, _ *rand.Rand) (func(context.Context) error, error) {
	return nil, s.each(func(g *group) error {
		return s.ask(ctx, func(ctx context.Context, c kubernetes.Interface) error {
			return c.CoordinationV1().Leases(s.namespace).Delete(ctx, g.name, metav1.DeleteOptions{})
		})
	})
}
