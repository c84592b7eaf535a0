// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package presence

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	kubewatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// roster follows the presences of a lock. It is for one goroutine.
type roster struct {
	client          rest.Interface
	namespace, lock string

	number uint64            // the version up to which all is known; zero before that
	all    map[string]Object // by name
}

// follow passes each the presences, by name, as they are and whenever they change, with the
// resourceVersion that this is true for, and blocks. It is one watch, which ends by itself
// after five to ten minutes: nil then. The next call continues where this one ended. Only the
// first call and one after a gap begin with a list, which is not older than a resourceVersion.
func (r *roster) follow(ctx context.Context, notOlder uint64, each func(all []Object, asOf uint64)) error {
	q := rawapi.Query{Resource: apierror.Leases, Namespace: r.namespace, Selector: selector(r.lock)}
	if r.number == 0 {
		list := q
		list.Cached, list.NotOlder = true, notOlder
		r.all = map[string]Object{}
		version, err := rawapi.ListEach(ctx, r.client, list, func(e rawapi.Event[*coordinationv1.Lease]) { r.take(e) })
		if err != nil {
			return fmt.Errorf("presences at lock %s: %w", r.lock, err)
		}
		r.number = version
		each(r.sorted(), r.number)
	}
	err := rawapi.WatchAll(ctx, r.client, q, r.number, func(_ context.Context, e rawapi.Event[*coordinationv1.Lease]) error {
		r.number = max(r.number, record.Number(e.Object.ResourceVersion))
		if r.take(e) {
			each(r.sorted(), r.number)
		}
		return nil
	})
	if errors.Is(err, locks.ErrVersionExpired) {
		r.number = 0
	}
	if err != nil {
		return fmt.Errorf("presences at lock %s: %w", r.lock, err)
	}
	return nil
}

// take applies an event, and reports whether it changed anything.
func (r *roster) take(e rawapi.Event[*coordinationv1.Lease]) bool {
	if e.Type == kubewatch.Bookmark {
		return false
	}
	name := e.Object.Name
	before, known := r.all[name]
	now := Among([]coordinationv1.Lease{*e.Object}, r.lock)
	if e.Type == kubewatch.Deleted || len(now) == 0 {
		delete(r.all, name)
		return known
	}
	r.all[name] = now[0]
	return now[0] != before
}

func (r *roster) sorted() []Object {
	return slices.SortedFunc(maps.Values(r.all), func(a, b Object) int { return strings.Compare(a.Name, b.Name) })
}

// peers returns the candidates that presences announce: one for each identity, in the order of the
// presences' names.
func peers(all []Object) []locks.Peer {
	var peers []locks.Peer
	known := map[string]bool{"": true}
	for _, o := range all {
		if known[o.Identity] {
			continue
		}
		known[o.Identity] = true
		peers = append(peers, locks.Peer{
			Candidate: locks.Candidate{Identity: o.Identity, Zone: o.Zone, Node: o.Node, Pod: locks.Pod{Name: o.Pod.Name, UID: string(o.Pod.UID)}},
			Unhealthy: o.Unhealthy,
		})
	}
	return peers
}
