// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package legacypods

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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

// selectorOf returns the selector of the Deployment that keeps the operator's pods running. A ReplicaSet's
// own selector matches no pod of another version.
func (c *Counter) selectorOf(ctx context.Context, self *corev1.Pod) (*metav1.LabelSelector, error) {
	set, err := controller[appsv1.ReplicaSet](ctx, c, apierror.ReplicaSets, self)
	if err != nil {
		return nil, err
	}
	deployment, err := controller[appsv1.Deployment](ctx, c, apierror.Deployments, set)
	if err != nil {
		return nil, err
	}
	return deployment.Spec.Selector, nil
}

// controller reads the controller of object, which must be of that kind.
func controller[T any, P rawapi.Type[T]](ctx context.Context, c *Counter, resource apierror.Resource, object metav1.Object) (P, error) {
	ref := metav1.GetControllerOf(object)
	if ref == nil || ref.Kind != resource.Kind || ref.APIVersion != resource.GroupVersion() {
		return nil, fmt.Errorf("%w: this pod belongs to no Deployment: set a label selector that matches the operator's old pods and new ones", ErrSelector)
	}
	name := apierror.Object{Resource: resource, Namespace: c.config.Namespace, Name: ref.Name}
	found, err := rawapi.New[T, P](c.config.Apps, name).Get(ctx)
	if err == nil && found.GetUID() != ref.UID {
		err = fmt.Errorf("%s is another than the one that this pod belongs to", name)
	}
	return found, err
}
