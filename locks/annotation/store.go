// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/rawapi"
)

// target is one object of any kind.
type target struct {
	get func(ctx context.Context) (metav1.Object, error)
	// put writes base, or a new object if base is nil, with a change.
	put   func(ctx context.Context, base any, change func(metav1.Object) error) (metav1.Object, error)
	watch func(ctx context.Context, from uint64, each eachEvent) error
}

type eachEvent func(context.Context, watch.EventType, metav1.Object) error

func targetOf[T any, P rawapi.Type[T]](client rest.Interface, name apierror.Object) target {
	o := rawapi.New[T, P](client, name)
	return target{
		get: func(ctx context.Context) (metav1.Object, error) { return o.Get(ctx) },
		put: func(ctx context.Context, base any, change func(metav1.Object) error) (metav1.Object, error) {
			verb, send, to := apierror.Create, o.Create, P(new(T))
			if base != nil {
				old, ok := base.(P)
				if !ok || old == nil {
					err := fmt.Errorf("the version to replace (%T) was not read from this %s", base, name.Kind)
					return nil, name.Explain(apierror.Update, err)
				}
				verb, send, to = apierror.Update, o.Update, old.DeepCopyObject().(P)
			}
			if err := change(to); err != nil {
				return nil, name.Explain(verb, err)
			}
			return send(ctx, to)
		},
		watch: func(ctx context.Context, from uint64, each eachEvent) error {
			return o.Watch(ctx, from, func(ctx context.Context, e rawapi.Event[P]) error {
				return each(ctx, e.Type, e.Object)
			})
		},
	}
}
