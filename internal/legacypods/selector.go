// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package legacypods

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/rawapi"
)

// findSelector returns the selector of the operator's pods: the given one, or that of the Deployment
// that keeps this pod running. A ReplicaSet's own selector matches no pod of another version. Each call
// asks the API until one has found it.
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
	set, err := controller[appsv1.ReplicaSet](ctx, c, apierror.ReplicaSets, self)
	if err != nil {
		return "", err
	}
	deployment, err := controller[appsv1.Deployment](ctx, c, apierror.Deployments, set)
	if err != nil {
		return "", err
	}
	selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
	if err != nil {
		return "", err
	}
	c.selector = selector.String()
	return c.selector, nil
}

// controller reads the controller of object, which must be of that kind.
func controller[T any, P rawapi.Type[T]](ctx context.Context, c *Counter, resource apierror.Resource, object metav1.Object) (P, error) {
	ref := metav1.GetControllerOf(object)
	if ref == nil || ref.Kind != resource.Kind || ref.APIVersion != resource.GroupVersion() {
		return nil, fmt.Errorf("%w: this pod belongs to no Deployment: "+
			"set a label selector that matches the operator's old pods and new ones", ErrSelector)
	}
	name := apierror.Object{Resource: resource, Namespace: c.config.Namespace, Name: ref.Name}
	found, err := rawapi.New[T, P](c.config.Apps, name).Get(ctx)
	if err == nil && found.GetUID() != ref.UID {
		err = fmt.Errorf("%s is another than the one that this pod belongs to", name)
	}
	return found, err
}
