// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/phase"
	"github.com/zonelect/zonelect/internal/rawapi"
)

// need is a permission.
type need struct {
	resource  apierror.Resource
	verb      string
	namespace string
	optional  string // the effect of its absence; empty if it is required
}

func (n need) String() string {
	text := fmt.Sprintf("verb %s on %s", n.verb, n.resource)
	if n.namespace != "" {
		text += " in namespace " + n.namespace
	}
	return text
}

func (m *Migration) needs(to Phase) []need {
	ns := m.config.Namespace
	all := []need{
		{apierror.Leases, apierror.Get, ns, ""}, {apierror.Leases, apierror.List, ns, ""}, {apierror.Leases, apierror.Update, ns, ""},
		{apierror.ConfigMaps, apierror.Get, ns, ""},
		{apierror.Endpoints, apierror.Get, ns, "an election record there is not seen"},
		{apierror.Pods, apierror.Get, ns, ""}, {apierror.Pods, apierror.List, ns, ""},
		{apierror.Events, apierror.Create, ns, "no Event reports the step"},
		{apierror.Leases, apierror.Get, corev1.NamespaceNodeLease, "pods that have finished may count as legacy pods that lead"},
	}
	if m.config.Selector == "" {
		for _, r := range []apierror.Resource{apierror.ReplicaSets, apierror.Deployments, apierror.StatefulSets, apierror.DaemonSets} {
			all = append(all, need{r, apierror.Get, ns, "the operator's pods cannot be found if they belong to one: give a selector"})
		}
	}
	if to == Clean {
		all = append(all, need{apierror.ReplicaSets, apierror.List, ns, ""})
	}
	return all
}

// permissions asks the API server what this user may do.
func (m *Migration) permissions(ctx context.Context, to Phase) Check {
	var missing, without []string
	for _, n := range m.needs(to) {
		allowed, err := m.may(ctx, n)
		if err != nil {
			return Check{
				Name: checkPermissions, Detail: err.Error(), Acknowledgeable: true,
				ToDo: "grant the verb create on selfsubjectaccessreviews, or find out by trying",
			}
		}
		switch {
		case allowed:
		case n.optional == "":
			missing = append(missing, n.String())
		default:
			without = append(without, fmt.Sprintf("without %s %s", n, n.optional))
		}
	}
	c := Check{Name: checkPermissions, OK: true, Detail: "all that is needed"}
	if len(without) > 0 {
		c.Detail += "; " + strings.Join(without, "; ")
	}
	if len(missing) > 0 {
		c.OK, c.Detail = false, "missing: "+strings.Join(missing, ", ")
		c.ToDo = "bind ClusterRole zonelect-migrate ('kubectl apply -k https://github.com/zonelect/zonelect//config/people/migrate' makes it) to this user, or run as a user with those rights"
	}
	return c
}

func (m *Migration) may(ctx context.Context, n need) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: n.namespace, Verb: n.verb, Group: n.resource.Group, Version: n.resource.Version, Resource: n.resource.Name,
		},
	}}
	answer := &authorizationv1.SelfSubjectAccessReview{}
	err := rawapi.Request(m.config.Authorization, http.MethodPost, apierror.AccessReviews, "").Body(review).Do(ctx).Into(answer)
	return answer.Status.Allowed, apierror.Object{Resource: apierror.AccessReviews}.Explain(apierror.Create, err)
}

// api says what the API server can do. That it serves Leases is known once they have been
// read. An old garbage collector only makes candidates wait.
func (m *Migration) api(ctx context.Context, r Report) Check {
	c := Check{Name: checkAPI, OK: true, Detail: apierror.Leases.GroupVersion() + " is served"}
	switch minor, err := rawapi.ServerMinor(ctx, m.config.Core); {
	case r.legacy.Elected: // no garbage collection is involved
	case err != nil:
		c.Detail += fmt.Sprintf("; the server's version is not known, so that candidates take the garbage collector for an old one and wait %v before they lead: %v", phase.SettleDefault, err)
	case minor < phase.PreconditionsSince:
		c.Detail += fmt.Sprintf("; Kubernetes 1.%d: the garbage collector may not compare resourceVersions, so that candidates wait %v before they first lead", minor, phase.SettleDefault)
	default:
		c.Detail += fmt.Sprintf("; Kubernetes 1.%d", minor)
	}
	return c
}

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
