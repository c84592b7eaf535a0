// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/internal/doctor"
	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// longestRequest bounds each request of the doctor's own.
const longestRequest = 10 * time.Second

// samples is how often a request is measured.
const samples = 3

// examine reads what the doctor wants to know about the cluster. created is the name of a Lease whose
// creation it tries if none of the locks has one; empty if it shall not. Only an API server that does
// not answer at all is an error.
func (c cluster) examine(ctx context.Context, now func() time.Time, locks []doctor.Lock, created string) (doctor.Cluster, error) {
	on := doctor.Cluster{Namespace: c.namespace}
	var err error
	if on.Address, on.Offset, err = c.probe(ctx, now); err != nil {
		return on, err
	}
	name := ""
	for _, l := range locks {
		if l.Lease != nil && name == "" {
			name = l.Name
		}
		on.Creates = on.Creates || l.Lease == nil && l.Unread == ""
		if d := l.Answer(); on.Answer == 0 || d < on.Answer {
			on.Answer = d
		}
		on.Legacy = on.Legacy || l.Phase() != "" && l.Phase() != record.PhaseClean
	}
	try := c.tryUpdate
	if name == "" {
		name, try = created, c.tryCreate
	}
	for range samples {
		if name != "" && created == "" {
			c.measure(ctx, &on, &on.Gets, func(ctx context.Context) error { _, err := c.Lease(ctx, c.lock(name)); return err })
		}
		c.measure(ctx, &on, &on.Lists, c.listOne)
		if name != "" && on.Untried == "" && on.Refused == "" && slices.Max(append(on.Writes, 0)) < time.Second {
			try(ctx, &on, name)
		}
	}
	c.readAdmission(ctx, &on)
	on.Slices = read(c, func() ([]discoveryv1.EndpointSlice, error) {
		return c.endpointSlices(ctx, metav1.NamespaceDefault, "kubernetes")
	})
	on.Quotas = read(c, func() ([]corev1.ResourceQuota, error) {
		list, err := rawapi.List[corev1.ResourceQuota](ctx, c.Core, apierror.ResourceQuotas, c.namespace, "")
		if err != nil {
			return nil, err
		}
		return list.Items, nil
	})
	on.FlowSchema = read(c, func() (*flowcontrolv1.FlowSchema, error) {
		id := apierror.Object{Resource: apierror.FlowSchemas, Name: doctor.FlowSchema}
		schema, err := rawapi.New[flowcontrolv1.FlowSchema](c.flowControl, id).Get(ctx)
		if id.Absent(err) {
			return nil, nil
		}
		return schema, err
	})
	return on, nil
}

// read reads something, or says why it cannot be read.
func read[T any](c cluster, do func() (T, error)) doctor.Fact[T] {
	value, err := do()
	if err != nil {
		return doctor.Fact[T]{Unknown: c.role.explained(err)}
	}
	return doctor.Fact[T]{Value: value}
}

// probe asks the API server for its version, which everybody may, and returns its address and
// by how much its clock is ahead of this machine's; nil if it does not say.
func (c cluster) probe(ctx context.Context, now func() time.Time) (address string, ahead *time.Duration, err error) {
	client, is := c.core.(*rest.RESTClient)
	if !is || client.Client == nil {
		return "an unknown address", nil, nil
	}
	url := client.Get().AbsPath("/version").URL()
	ctx, cancel := context.WithTimeout(ctx, longestRequest)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url.String(), nil)
	if err != nil {
		return "", nil, err
	}
	sent := now()
	answer, err := client.Client.Do(request)
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = answer.Body.Close() }() // nobody reads it
	between := sent.Add(now().Sub(sent) / 2)
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return url.Host, nil, nil
	}
	d := date.Add(500 * time.Millisecond).Sub(between) // it has whole seconds
	return url.Host, &d, nil
}

// measure notes how long a request took, or why it failed.
func (c cluster) measure(ctx context.Context, on *doctor.Cluster, times *[]time.Duration, do func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, longestRequest)
	defer cancel()
	began := time.Now()
	err := do(ctx)
	_, lacking := apierror.MissingIn(err)
	switch {
	case err == nil:
		*times = append(*times, time.Since(began))
	case lacking:
		on.Denied = c.role.explained(err)
	default:
		on.Failed = append(on.Failed, c.role.explained(err))
		on.Shed = on.Shed || apierrors.IsTooManyRequests(err)
	}
}

// longestWrite is how long the longest webhook may hold up a write.
const longestWrite = 30 * time.Second

// tryUpdate measures a write of the Lease that changes nothing: it is a trial (dryRun), and has what is
// there. Somebody may write the Lease between the read and the write.
func (c cluster) tryUpdate(ctx context.Context, on *doctor.Cluster, name string) {
	id := apierror.Object{Resource: apierror.Leases, Namespace: c.namespace, Name: name}
	ctx, cancel := context.WithTimeout(ctx, longestWrite)
	defer cancel()
	for range conflicts {
		lease, err := rawapi.New[coordinationv1.Lease](c.Coordination, id).Get(ctx)
		if err != nil {
			return // the reads are measured, too
		}
		request := rawapi.Request(c.Coordination, http.MethodPut, id.Resource, id.Namespace).Name(name).Body(lease)
		if !c.try(ctx, on, request, func(err error) error { return id.Explain(apierror.Update, err) }) {
			return
		}
	}
}

// tryCreate measures a trial of creating a Lease.
func (c cluster) tryCreate(ctx context.Context, on *doctor.Cluster, name string) {
	id := apierror.Object{Resource: apierror.Leases, Namespace: c.namespace, Name: name}
	ctx, cancel := context.WithTimeout(ctx, longestWrite)
	defer cancel()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}}
	c.try(ctx, on, rawapi.Request(c.Coordination, http.MethodPost, id.Resource, id.Namespace).Body(lease), func(err error) error { return id.Explain(apierror.Create, err) })
}

// try sends a trial, and reports whether somebody else's write came between.
func (c cluster) try(ctx context.Context, on *doctor.Cluster, request *rest.Request, explain func(error) error) (conflicts bool) {
	began := time.Now()
	err := explain(request.Param("dryRun", metav1.DryRunAll).Do(ctx).Error())
	took := time.Since(began)
	_, lacking := apierror.MissingIn(err)
	switch {
	case err == nil:
		on.Writes = append(on.Writes, took)
	case lacking:
		on.Untried = roleTrial.explained(err)
	case apierrors.IsBadRequest(err): // a webhook that has side effects even in a trial
		on.Untried = c.role.explained(err)
	case errors.Is(err, locks.ErrForbidden), strings.Contains(err.Error(), `failed calling webhook "`):
		on.Refused = c.role.explained(err)
	case errors.Is(err, locks.ErrConflict):
		return true
	default:
		on.Failed = append(on.Failed, c.role.explained(err))
		on.Shed = on.Shed || apierrors.IsTooManyRequests(err)
	}
	return false
}

// listOne lists Leases of the namespace, one at most, as the store has them now.
func (c cluster) listOne(ctx context.Context) error {
	err := rawapi.Request(c.Coordination, http.MethodGet, apierror.Leases, c.namespace).Param("limit", "1").Do(ctx).Error()
	return apierror.Object{Resource: apierror.Leases, Namespace: c.namespace}.Explain(apierror.List, err)
}

// readAdmission reads the webhooks and policies that stand before the writes of a lock.
func (c cluster) readAdmission(ctx context.Context, on *doctor.Cluster) {
	labels := c.labels(ctx)
	on.Webhooks = read(c, func() ([]doctor.Webhook, error) {
		validating, err := rawapi.List[admissionv1.ValidatingWebhookConfiguration](ctx, c.admission, apierror.ValidatingWebhooks, "", "")
		if err != nil {
			return nil, err
		}
		mutating, err := rawapi.List[admissionv1.MutatingWebhookConfiguration](ctx, c.admission, apierror.MutatingWebhooks, "", "")
		if err != nil {
			return nil, err
		}
		all := append(doctor.Validating(validating.Items, labels), doctor.Mutating(mutating.Items, labels)...)
		for i, w := range all {
			if w.Service != nil {
				all[i].Backends = read(c, func() (int, error) {
					slices, err := c.endpointSlices(ctx, w.Service.Namespace, w.Service.Name)
					return len(doctor.Ready(slices)), err
				})
			}
		}
		return all, nil
	})
	on.Policies = read(c, func() ([]doctor.Policy, error) {
		policies, err := rawapi.List[admissionv1.ValidatingAdmissionPolicy](ctx, c.admission, apierror.Policies, "", "")
		if err != nil {
			return nil, err
		}
		bindings, err := rawapi.List[admissionv1.ValidatingAdmissionPolicyBinding](ctx, c.admission, apierror.PolicyBindings, "", "")
		if err != nil {
			return nil, err
		}
		return doctor.Policies(policies.Items, bindings.Items, labels), nil
	})
}

// labels are those of the namespace; nil if they are not known.
func (c cluster) labels(ctx context.Context) map[string]string {
	found, err := rawapi.New[corev1.Namespace](c.Core, apierror.Object{Resource: apierror.Namespaces, Name: c.namespace}).Get(ctx)
	if err != nil {
		return nil
	}
	if found.Labels == nil {
		return map[string]string{}
	}
	return found.Labels
}

// endpointSlices lists those of a Service.
func (c cluster) endpointSlices(ctx context.Context, namespace, service string) ([]discoveryv1.EndpointSlice, error) {
	list, err := rawapi.List[discoveryv1.EndpointSlice](ctx, c.discovery, apierror.EndpointSlices, namespace, discoveryv1.LabelServiceName+"="+service)
	if err != nil {
		return nil, err
	}
	return list.Items, nil
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
	return read(c, func() ([]doctor.Right, error) { return c.askedOf(ctx, needs) })
}

func (c cluster) askedOf(ctx context.Context, needs []doctor.Right) ([]doctor.Right, error) {
	for i := range needs {
		var err error
		if needs[i].Allowed, err = c.allowed(ctx, needs[i]); err != nil {
			return nil, err
		}
	}
	return needs, nil
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
