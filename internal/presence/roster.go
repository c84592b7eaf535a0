// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package presence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	kubewatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
)

// most is how many presences a [Roster] keeps: who may create a Lease can make one
// up, and each costs memory and time. A candidate that is not among them has its
// place in the order all the same, by its own word.
const most = 300

// Roster follows the presences of a lock. It is for one goroutine. Make one
// with [NewRoster].
type Roster struct {
	client          rest.Interface
	namespace, lock string

	number uint64 // as of when all is known; zero before it is
	all    map[string]Object
}

// NewRoster returns a roster that knows of nobody yet.
func NewRoster(client rest.Interface, namespace, lock string) *Roster {
	return &Roster{client: client, namespace: namespace, lock: lock}
}

// Follow tells each the presences, by name, as they are and whenever they
// change, and as of which resourceVersion that is, and blocks. It is one watch,
// which ends by itself after five to ten minutes: nil then. The next call goes on
// where this one ended; only the first, and one after a gap, begins with a list,
// which is not older than a resourceVersion.
func (r *Roster) Follow(ctx context.Context, notOlder uint64, each func(all []Object, asOf uint64)) error {
	if r.number == 0 {
		if err := r.list(ctx, notOlder); err != nil {
			return fmt.Errorf("presences at lock %s: %w", r.lock, err)
		}
		each(r.sorted(), r.number)
	}
	err := rawapi.WatchAll[coordinationv1.Lease](ctx, r.client, apierror.Leases, r.namespace, selector(r.lock), r.number,
		func(_ context.Context, e rawapi.Event[*coordinationv1.Lease]) error {
			if r.take(e) {
				each(r.sorted(), r.number)
			}
			return nil
		})
	if errors.Is(err, election.ErrVersionExpired) {
		r.number = 0
	}
	if err != nil {
		return fmt.Errorf("presences at lock %s: %w", r.lock, err)
	}
	return nil
}

func (r *Roster) list(ctx context.Context, notOlder uint64) error {
	list, err := rawapi.ListCached[coordinationv1.LeaseList](ctx, r.client, apierror.Leases, r.namespace, selector(r.lock), notOlder)
	if err != nil {
		return err
	}
	r.number, r.all = record.Number(list.ResourceVersion), map[string]Object{}
	found := Among(list.Items, r.lock)
	for _, o := range found[:min(len(found), most)] {
		r.all[o.Name] = o
	}
	return nil
}

// take takes in an event, and reports whether it changed anything.
func (r *Roster) take(e rawapi.Event[*coordinationv1.Lease]) bool {
	r.number = max(r.number, record.Number(e.Object.ResourceVersion))
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
	if !known && len(r.all) >= most {
		return false
	}
	r.all[name] = now[0]
	return !known || now[0] != before
}

func (r *Roster) sorted() []Object {
	return slices.SortedFunc(maps.Values(r.all), func(a, b Object) int { return cmp.Compare(a.Name, b.Name) })
}

// Peers returns the candidates that presences tell of: one for each identity.
func Peers(all []Object) []election.Peer {
	var peers []election.Peer
	met := map[string]bool{"": true}
	for _, o := range all {
		if met[o.Identity] {
			continue
		}
		met[o.Identity] = true
		peers = append(peers, election.Peer{
			Candidate: election.Candidate{Identity: o.Identity, Zone: o.Zone, Node: o.Node, Pod: o.Pod.Name + "/" + string(o.Pod.UID)},
			Unhealthy: o.Unhealthy,
		})
	}
	return peers
}
