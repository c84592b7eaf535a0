// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/rawapi"
)

// store is one object of any kind.
type store interface {
	get(ctx context.Context) (metav1.Object, error)
	// put writes base, or a new object if base is nil, with a change.
	put(ctx context.Context, base any, change func(metav1.Object) error) (metav1.Object, error)
	watch(ctx context.Context, from uint64, each eachEvent) error
}

type eachEvent func(context.Context, watch.EventType, metav1.Object) error

// stores has the constructor of the store for each kind of object.
var stores = map[Kind]struct {
	resource apierror.Resource
	make     func(rest.Interface, apierror.Object) store
}{
	ConfigMaps: {apierror.ConfigMaps, newStore[corev1.ConfigMap]},
	Endpoints:  {apierror.Endpoints, newStore[corev1.Endpoints]}, //nolint:staticcheck // deprecated, but what the old lock stands on
}

func newStore[T any, P rawapi.Type[T]](client rest.Interface, name apierror.Object) store {
	return typed[T, P]{rawapi.New[T, P](client, name)}
}

// typed is a store of one Go type.
type typed[T any, P rawapi.Type[T]] struct{ object rawapi.Object[T, P] }

func (s typed[T, P]) get(ctx context.Context) (metav1.Object, error) { return s.object.Get(ctx) }

func (s typed[T, P]) put(ctx context.Context, base any, change func(metav1.Object) error) (metav1.Object, error) {
	verb, send, object := apierror.Create, s.object.Create, P(new(T))
	if base != nil {
		old, ok := base.(P)
		if !ok || old == nil {
			return nil, s.object.Name().Explain(apierror.Update, fmt.Errorf("the version to replace (%T) was not read from this %s", base, s.object.Name().Kind))
		}
		verb, send, object = apierror.Update, s.object.Update, old.DeepCopyObject().(P)
	}
	if err := change(object); err != nil {
		return nil, s.object.Name().Explain(verb, err)
	}
	return send(ctx, object)
}

func (s typed[T, P]) watch(ctx context.Context, from uint64, each eachEvent) error {
	return s.object.Watch(ctx, from, func(ctx context.Context, e rawapi.Event[P]) error {
		return each(ctx, e.Type, e.Object)
	})
}
