// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rawapi

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

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
	return list[T, P](ctx, Request(client, http.MethodGet, resource, namespace), resource, namespace, selector)
}

// ListCached is List from the API server's cache, which may be behind, but not older than a
// resourceVersion. It costs the server little, however many objects the selector does not
// match. A watch from its resourceVersion brings it up to date.
func ListCached[T any, P ListType[T]](ctx context.Context, client rest.Interface, resource apierror.Resource, namespace, selector string, notOlder uint64) (P, error) {
	req := Request(client, http.MethodGet, resource, namespace).Param("resourceVersion", strconv.FormatUint(notOlder, 10))
	return list[T, P](ctx, req, resource, namespace, selector)
}

func list[T any, P ListType[T]](ctx context.Context, req *rest.Request, resource apierror.Resource, namespace, selector string) (P, error) {
	if selector != "" {
		req.Param("labelSelector", selector)
	}
	found := P(new(T))
	err := req.Do(ctx).Into(found)
	if err == nil && record.Number(found.GetResourceVersion()) == 0 {
		// An answer that is no list would read as an empty one.
		err = fmt.Errorf("the answer is no list of %s: its resourceVersion is %q, not a number above zero: is this a Kubernetes API server?", resource.Name, found.GetResourceVersion())
	}
	if err != nil {
		name := apierror.Object{Resource: resource, Namespace: namespace}
		return nil, name.Explain(apierror.List, err)
	}
	return found, nil
}
