// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/locks"
)

// retry is the least time from one beginning of a watch to the next.
const retry = 2 * time.Second

// conflicts bounds how often a change of a Lease is tried again because somebody
// else wrote the Lease meanwhile. Its leader does so every few seconds.
const conflicts = 10

// change changes a Lease by compare-and-swap, unless do leaves it as it is.
func (c cluster) change(ctx context.Context, lock types.NamespacedName, do func(*coordinationv1.Lease) error) (*coordinationv1.Lease, error) {
	object := rawapi.New[coordinationv1.Lease](c.Coordination, apierror.Object{Resource: apierror.Leases, Namespace: lock.Namespace, Name: lock.Name})
	for tries := 1; ; tries++ {
		lease, err := object.Get(ctx)
		if err != nil {
			return nil, err
		}
		changed := lease.DeepCopy()
		if err := do(changed); err != nil {
			return lease, err
		}
		if equality.Semantic.DeepEqual(lease, changed) {
			return lease, nil
		}
		if changed, err = object.Update(ctx, changed); err == nil || !errors.Is(err, locks.ErrConflict) || tries == conflicts {
			return changed, err
		}
	}
}

// annotate sets an annotation, or deletes it where value is empty.
func annotate(lease *coordinationv1.Lease, key, value string) {
	if value == "" {
		delete(lease.Annotations, key)
		return
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[key] = value
}

// follow lists Leases and watches them until the watch ends, or enough is seen.
func (c cluster) follow(ctx context.Context, see func(*coordinationv1.Lease), enough func() bool) error {
	list, err := c.Leases(ctx, c.namespace)
	if err != nil {
		return err
	}
	for i := range list.Items {
		see(&list.Items[i])
	}
	if enough() {
		return nil
	}
	events, err := c.watchLeases(ctx, list.ResourceVersion)
	if err != nil {
		return err
	}
	defer events.Stop()
	for !enough() {
		select {
		case e, open := <-events.ResultChan():
			if !open {
				return nil
			}
			if lease, ok := e.Object.(*coordinationv1.Lease); ok && e.Type != watch.Deleted {
				see(lease)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// watchLeases begins a watch after a version.
func (c cluster) watchLeases(ctx context.Context, version string) (watch.Interface, error) {
	req := rawapi.Request(c.Coordination, http.MethodGet, apierror.Leases, c.namespace).
		Param("watch", "true").Param("resourceVersion", version)
	if c.namespace == "" {
		// Every node renews a Lease of its own there.
		req.Param("fieldSelector", "metadata.namespace!=kube-node-lease")
	}
	events, err := req.Watch(ctx)
	if err != nil {
		return nil, apierror.Object{Resource: apierror.Leases, Namespace: c.namespace}.Explain(apierror.Watch, err)
	}
	return events, nil
}
