// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/rawapi"
)

// revisions are the operator's ReplicaSets that belong to no candidate.
type revisions struct {
	up   []string // those that have pods
	down []string // those that are scaled to zero, and could be rolled back to
}

// readRevisions looks for other revisions of the Deployments that the
// candidates belong to.
func (p *preflight) readRevisions(ctx context.Context, r Report) (revisions, error) {
	current := map[types.UID]bool{}
	for _, c := range r.running() {
		current[c.Controller] = true
	}
	sets, err := rawapi.List[appsv1.ReplicaSet](ctx, p.config.Apps, apierror.ReplicaSets, p.config.Namespace, "")
	if err != nil {
		return revisions{}, err
	}
	deployments := map[types.UID]bool{}
	for i := range sets.Items {
		if set := &sets.Items[i]; current[set.UID] {
			deployments[controller(set)] = true
		}
	}
	delete(deployments, "")
	var found revisions
	for i := range sets.Items {
		set := &sets.Items[i]
		switch {
		case current[set.UID] || !deployments[controller(set)]:
		case set.Spec.Replicas != nil && *set.Spec.Replicas == 0:
			found.down = append(found.down, set.Name)
		default:
			found.up = append(found.up, set.Name)
		}
	}
	return found, nil
}

func (v revisions) scaledUp() Check {
	c := Check{Name: checkWorkload, OK: len(v.up) == 0, Detail: "no other revision of the candidates' Deployments is scaled up"}
	if !c.OK {
		c.Detail = "other revisions of the operator are scaled up: " + strings.Join(v.up, ", ")
		c.ToDo = "finish the rollout"
		c.Acknowledgeable = true
	}
	return c
}

// noWayBack never passes, because only a person can answer it.
func (v revisions) noWayBack() Check {
	const most = 5
	c := Check{Name: checkNoWayBack, Acknowledgeable: true}
	c.Detail = "the API does not show whether anything can bring legacy pods back: another Deployment, a rollback, a chart or a repository that holds the old version"
	if n := len(v.down); n > 0 {
		c.Detail += fmt.Sprintf("; a rollback of the Deployment would use one of %d older ReplicaSets: %s", n, strings.Join(slices.Clone(v.down[:min(n, most)]), ", "))
	}
	c.ToDo = "make sure that nothing can, because a legacy pod that starts after this step leads beside the candidates; then acknowledge this check"
	return c
}

// controller returns the UID of an object's controller; empty if it has none.
func controller(object metav1.Object) types.UID {
	if ref := metav1.GetControllerOf(object); ref != nil {
		return ref.UID
	}
	return ""
}
