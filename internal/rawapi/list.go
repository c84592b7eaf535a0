// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rawapi

import (
	"context"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/record"
)

// ListType is a pointer to a list of the API, such as *corev1.PodList.
type ListType[T any] interface {
	*T
	metav1.ListInterface
	runtime.Object
}

// List reads all objects of a resource in a namespace that a label selector
// matches, with one linearizable request; empty ones mean all. The answer is
// complete, however long.
func List[T any, P ListType[T]](ctx context.Context, client rest.Interface, resource apierror.Resource, namespace, selector string) (P, error) {
	req := Request(client, http.MethodGet, resource, namespace)
	if selector != "" {
		req.Param("labelSelector", selector)
	}
	list := P(new(T))
	err := req.Do(ctx).Into(list)
	if err == nil && record.Number(list.GetResourceVersion()) == 0 {
		// What is no list would read as an empty one.
		err = fmt.Errorf("the answer is no list of %s: its resourceVersion is %q, not a number above zero: is this a Kubernetes API server?", resource.Name, list.GetResourceVersion())
	}
	if err != nil {
		name := apierror.Object{Resource: resource, Namespace: namespace}
		return nil, name.Explain(apierror.List, err)
	}
	return list, nil
}
