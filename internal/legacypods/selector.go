// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package legacypods

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/rawapi"
)

// findSelector returns the selector of the operator's pods. Each call asks the API until
// one has found it.
func (c *Counter) findSelector(ctx context.Context) (string, error) {
	if c.selector != "" {
		return c.selector, nil
	}
	self, err := c.pod(ctx, c.config.Self)
	if err != nil {
		return "", err
	}
	if self == nil {
		return "", fmt.Errorf("this pod %s does not exist", c.config.Self)
	}
	found, err := c.selectorOf(ctx, self)
	if err != nil {
		return "", fmt.Errorf("finding the selector of the operator's pods: %w", err)
	}
	selector, err := metav1.LabelSelectorAsSelector(found)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: its selector makes no sense: %w", ErrSelector, err)
	case selector.Empty() || !selector.Matches(labels.Set(self.Labels)):
		return "", fmt.Errorf("%w: the selector %q of this pod's controller is not one for the operator's pods alone: set one", ErrSelector, selector)
	}
	c.selector = selector.String()
	return c.selector, nil
}

// selectorOf returns the selector of the controller that keeps the operator's pods
// running. It follows the owner references up from this program's pod.
func (c *Counter) selectorOf(ctx context.Context, object metav1.Object) (*metav1.LabelSelector, error) {
	ref := metav1.GetControllerOf(object)
	if ref == nil {
		return nil, fmt.Errorf("%w: this pod has no controller: set a label selector that matches the operator's old pods and new ones", ErrSelector)
	}
	group, _, _ := strings.Cut(ref.APIVersion, "/")
	if group != "apps" && group != "extensions" {
		return nil, notKnown(ref)
	}
	switch ref.Kind {
	case apierror.ReplicaSets.Kind:
		set, err := controller[appsv1.ReplicaSet](ctx, c, apierror.ReplicaSets, ref)
		if err != nil || metav1.GetControllerOf(set) == nil {
			return set.Spec.Selector, err
		}
		// A ReplicaSet's own selector matches no pod of another version.
		return c.selectorOf(ctx, set)
	case apierror.Deployments.Kind:
		deployment, err := controller[appsv1.Deployment](ctx, c, apierror.Deployments, ref)
		return deployment.Spec.Selector, err
	case apierror.StatefulSets.Kind:
		set, err := controller[appsv1.StatefulSet](ctx, c, apierror.StatefulSets, ref)
		return set.Spec.Selector, err
	case apierror.DaemonSets.Kind:
		set, err := controller[appsv1.DaemonSet](ctx, c, apierror.DaemonSets, ref)
		return set.Spec.Selector, err
	}
	return nil, notKnown(ref)
}

func notKnown(ref *metav1.OwnerReference) error {
	return fmt.Errorf("%w: this pod belongs to %s %s (%s), whose selector is not known: set one that matches the operator's old pods and new ones", ErrSelector, ref.Kind, ref.Name, ref.APIVersion)
}

// controller reads the object that ref refers to. It never returns nil.
func controller[T any, P rawapi.Type[T]](ctx context.Context, c *Counter, resource apierror.Resource, ref *metav1.OwnerReference) (P, error) {
	name := apierror.Object{Resource: resource, Namespace: c.config.Namespace, Name: ref.Name}
	object, err := rawapi.New[T, P](c.config.Apps, name).Get(ctx)
	if err != nil {
		return P(new(T)), err
	}
	if object.GetUID() != ref.UID {
		return P(new(T)), fmt.Errorf("%s is another than the one that this pod belongs to", name)
	}
	return object, nil
}
