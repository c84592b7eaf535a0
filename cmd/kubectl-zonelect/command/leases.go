// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
)

// reportInterval is how often follow yields Leases even without an event.
const reportInterval = time.Second

// A watch that is silent for as long as that is checked by a list, which may take as long as
// listTimeout: the connection may be dead, and then silence says nothing about the locks.
const silence, listTimeout = 5 * time.Second, 15 * time.Second

// retry is the shortest time between the beginnings of two watches.
const retry = 2 * time.Second

// conflicts bounds how often a change of a Lease is retried because another client wrote the
// Lease meanwhile. Its leader does so every few seconds.
const conflicts = 10

// change changes a Lease by compare-and-swap, unless do leaves it unchanged.
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
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, key, value)
}

// leases are the Leases of a namespace, or of all.
type leases map[types.NamespacedName]*coordinationv1.Lease

// follow lists Leases and watches them until ctx ends or the loop over it breaks. It yields
// all of them after the list, when the watch has begun, on each change, and every
// reportInterval. If a request fails, it yields the error without Leases, and lists again; if
// a watch breaks, it yields the error with them.
func (c cluster) follow(ctx context.Context) iter.Seq2[leases, error] {
	return func(yield func(leases, error) bool) {
		for ctx.Err() == nil {
			next := time.Now().Add(retry)
			more, err := c.round(ctx, yield)
			if !more || err != nil && ctx.Err() == nil && !yield(nil, err) {
				return
			}
			_ = sleep.For(ctx, time.Until(next))
		}
	}
}

// round lists and watches once, until the watch ends or is silent. more is false if yield
// wants nothing further.
func (c cluster) round(ctx context.Context, yield func(leases, error) bool) (more bool, err error) {
	list, err := c.listSoon(ctx)
	if err != nil {
		return true, err
	}
	all := leases{}
	for i := range list.Items {
		all[inspect.KeyOf(&list.Items[i])] = &list.Items[i]
	}
	if !yield(all, nil) {
		return false, nil
	}
	events, err := c.watchLeases(ctx, list.ResourceVersion)
	if err != nil {
		return true, err
	}
	defer events.Stop()
	ticks := time.NewTicker(reportInterval)
	defer ticks.Stop()
	silent := time.NewTimer(silence)
	defer silent.Stop()
	for yield(all, nil) {
		select {
		case e, open := <-events.ResultChan():
			if !open {
				return true, nil
			}
			silent.Reset(silence)
			if err := c.apply(e, all); err != nil {
				return yield(all, err), nil
			}
		case <-silent.C:
			return true, nil
		case <-ticks.C:
		case <-ctx.Done():
			return true, nil
		}
	}
	return false, nil
}

// listSoon lists the Leases, or fails.
func (c cluster) listSoon(ctx context.Context) (rawapi.Listing[coordinationv1.Lease], error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	return c.Leases(ctx, c.namespace)
}

// apply applies one event. An error event ends the watch. An event that says that its
// resourceVersion is too old is not an error, because a list comes next.
func (c cluster) apply(e watch.Event, all leases) error {
	lease, ok := e.Object.(*coordinationv1.Lease)
	switch {
	case e.Type == watch.Error:
		err := apierrors.FromObject(e.Object)
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			return nil
		}
		return apierror.Object{Resource: apierror.Leases, Namespace: c.namespace}.Explain(apierror.Watch, err)
	case ok && e.Type == watch.Deleted:
		delete(all, inspect.KeyOf(lease))
	case ok && (e.Type == watch.Added || e.Type == watch.Modified):
		all[inspect.KeyOf(lease)] = inspect.Trim(lease)
	}
	return nil
}

// watchLeases begins a watch after a version.
func (c cluster) watchLeases(ctx context.Context, version string) (watch.Interface, error) {
	req := rawapi.Request(c.Coordination, http.MethodGet, apierror.Leases, c.namespace).
		Param("watch", "true").Param("resourceVersion", version)
	if c.namespace == "" {
		// Every node renews a Lease of its own in that namespace.
		req.Param("fieldSelector", "metadata.namespace!="+corev1.NamespaceNodeLease)
	}
	events, err := req.Watch(ctx)
	if err != nil {
		return nil, apierror.Object{Resource: apierror.Leases, Namespace: c.namespace}.Explain(apierror.Watch, err)
	}
	return events, nil
}
