// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/internal/audit"
	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/sleep"
)

// readElections watches the Leases for some time, and reads what surrounds them. After a second of
// watching, the end of its context ends the watching, and no more. The number of its
// requests depends on neither Leases nor pods, except by the pages of lists.
func (c cluster) readElections(ctx context.Context, env *environment, most time.Duration) (audit.Cluster, audit.LeftOut, error) {
	before, began := c.legacyObjects(ctx), time.Now()
	leases := audit.NewWatch()
	env.tell("watching the Leases in %s for %s\n", c.scope(), most)
	if err := c.watchFor(ctx, env, leases, most); err != nil {
		return audit.Cluster{}, audit.LeftOut{}, err
	}
	ended := time.Now()
	if ctx.Err() != nil {
		if most = ended.Sub(began); most < time.Second {
			return audit.Cluster{}, audit.LeftOut{}, ctx.Err()
		}
		env.tell("reading what else there is; Ctrl-C again ends this\n")
		var done context.CancelFunc
		ctx, done = context.WithTimeout(context.WithoutCancel(ctx), listTimeout)
		defer done()
	}
	after := before
	if before.records() {
		after = c.legacyObjects(ctx)
	}
	on := audit.Cluster{Namespace: c.namespace, Watched: most, Now: ended, Unread: after.unread}
	on.Elections = slices.Concat(leases.Elections(),
		audit.Records(audit.OnConfigMap, before.maps, after.maps, began, time.Now()), audit.ForLife(after.maps, ended),
		audit.Records(audit.OnEndpoints, before.endpoints, after.endpoints, began, time.Now()))
	if len(on.Elections) == 0 {
		return on, leases.LeftOut, nil
	}
	on.Pods = read(c, func() ([]audit.Pod, error) { return c.pods(ctx) })
	on.Zones = read(c, func() (map[string]string, error) { return c.zonesOfNodes(ctx) })
	return on, leases.LeftOut, nil
}

// quiet is how long a watch may be silent until a list shows whether it is alive.
const quiet = 15 * time.Second

// watchFor watches the Leases. What fails at first is an error, and so is to see no list: later, it tries
// again.
func (c cluster) watchFor(ctx context.Context, env *environment, into *audit.Watch, most time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	listed := false
	for first := true; ctx.Err() == nil; first = false {
		next := time.Now().Add(retry)
		err := c.watchOnce(ctx, into, &listed)
		if err != nil && (!listed || first && ctx.Err() == nil) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			env.tell("note: restarting the watch: %v\n", err)
		}
		_ = sleep.For(ctx, time.Until(next))
	}
	return nil
}

// watchOnce lists the Leases and watches them until the watch ends or is silent.
func (c cluster) watchOnce(ctx context.Context, into *audit.Watch, listed *bool) error {
	q := rawapi.Query{Resource: apierror.Leases, Namespace: c.namespace}
	if c.namespace == "" {
		q.Fields = "metadata.namespace!=" + audit.NodeLeases
	}
	var all []*coordinationv1.Lease
	list, done := context.WithTimeout(ctx, listTimeout)
	version, err := rawapi.ListEach(list, c.Coordination, q, func() { all = nil }, func(e rawapi.Event[*coordinationv1.Lease]) { all = append(all, e.Object) })
	done()
	if err != nil {
		return err
	}
	into.List(time.Now(), all)
	*listed = true
	ctx, cancel := context.WithCancelCause(ctx)
	silent := time.AfterFunc(quiet, func() { cancel(errQuiet) })
	defer silent.Stop()
	err = rawapi.WatchAll(ctx, c.Coordination, q, version, func(_ context.Context, e rawapi.Event[*coordinationv1.Lease]) error {
		silent.Reset(quiet)
		switch e.Type {
		case watch.Added, watch.Modified:
			into.Written(time.Now(), e.Object)
		case watch.Deleted:
			into.Deleted(time.Now(), e.Object)
		}
		return nil
	})
	if errors.Is(context.Cause(ctx), errQuiet) {
		return nil
	}
	cancel(nil)
	return err
}

var errQuiet = errors.New("the watch is silent")

// legacyObjects are the locks that are on other objects than Leases, by their metadata.
type legacyObjects struct {
	maps, endpoints []metav1.PartialObjectMetadata
	unread          []audit.Unread
}

// records reports whether some of them have a record, which changes.
func (l legacyObjects) records() bool {
	return slices.ContainsFunc(slices.Concat(l.maps, l.endpoints), func(o metav1.PartialObjectMetadata) bool {
		return o.Annotations[resourcelock.LeaderElectionRecordAnnotationKey] != ""
	})
}

// legacyObjects lists the metadata of ConfigMaps and Endpoints, and keeps what may be a lock.
func (c cluster) legacyObjects(ctx context.Context) (all legacyObjects) {
	for _, of := range []struct {
		resource apierror.Resource
		into     *[]metav1.PartialObjectMetadata
		what     string
	}{
		{apierror.ConfigMaps, &all.maps, "which ConfigMaps are leader-for-life locks or have election records"},
		{apierror.Endpoints, &all.endpoints, "which Endpoints have election records"},
	} {
		found := read(c, func() ([]metav1.PartialObjectMetadata, error) {
			q := rawapi.Query{Resource: of.resource, Namespace: c.namespace, Metadata: true}
			list, err := rawapi.Collect(ctx, c.Core, q, func(e rawapi.Event[*metav1.PartialObjectMetadata]) *metav1.PartialObjectMetadata {
				if e.Object.Annotations[resourcelock.LeaderElectionRecordAnnotationKey] == "" && len(e.Object.OwnerReferences) != 1 {
					return nil
				}
				return e.Object
			})
			return list.Items, err
		})
		*of.into = found.Value
		if found.Unknown != "" {
			all.unread = append(all.unread, audit.Unread{What: of.what, Why: found.Unknown})
		}
	}
	return all
}

// pods lists the pods, and keeps little of each.
func (c cluster) pods(ctx context.Context) ([]audit.Pod, error) {
	var all []audit.Pod
	q := rawapi.Query{Resource: apierror.Pods, Namespace: c.namespace}
	_, err := rawapi.ListEach(ctx, c.Core, q, func() { all = nil }, func(e rawapi.Event[*corev1.Pod]) { all = append(all, audit.PodOf(e.Object)) })
	return all, err
}

// zonesOfNodes lists the zones of the nodes by their metadata.
func (c cluster) zonesOfNodes(ctx context.Context) (map[string]string, error) {
	var all map[string]string
	q := rawapi.Query{Resource: apierror.Nodes, Metadata: true}
	_, err := rawapi.ListEach(ctx, c.Core, q, func() { all = map[string]string{} }, func(e rawapi.Event[*metav1.PartialObjectMetadata]) {
		all[e.Object.Name] = e.Object.Labels[corev1.LabelTopologyZone]
	})
	return all, err
}
