// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// conflicts is how often a Lease is changed anew because somebody else wrote it
// meanwhile. Its leader does every few seconds.
const conflicts = 10

// change changes a Lease by compare-and-swap, unless do leaves it as it is.
func (l looker) change(ctx context.Context, namespace, name string, do func(*coordinationv1.Lease) error) (*coordinationv1.Lease, error) {
	object := rawapi.New[coordinationv1.Lease](l.coordination, apierror.Object{Resource: apierror.Leases, Namespace: namespace, Name: name})
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

// move is a lock whose leader shall be another one.
type move struct {
	namespace, name string
	from            Leader
	avoid           string  // the zone that it shall leave; empty: any other leader will do
	asked           uint64  // the version of the Lease that asks for it
	to              *Leader // who leads now; nil if nobody else does yet
	refused         string  // why the leader goes on
	waits           string  // what is waited for
}

func (m *move) key() types.NamespacedName {
	return types.NamespacedName{Namespace: m.namespace, Name: m.name}
}

// over reports whether nothing is left to wait for.
func (m *move) over() bool { return m.to != nil || m.refused != "" }

// see takes in a version of the Lease.
func (m *move) see(lease *coordinationv1.Lease) {
	r := record.Read(lease)
	leader := leaderOf(lease)
	switch {
	case record.Number(lease.ResourceVersion) < m.asked:
	case leader == nil:
		m.waits = m.from.Identity + " gave the lock up, and nobody has taken it"
	case leader.Identity != m.from.Identity && (m.avoid == "" || leader.Zone != m.avoid):
		m.to, m.refused = leader, ""
	case leader.Identity != m.from.Identity:
		m.from = *leader
		m.waits = leader.Identity + " took over, in zone " + leader.Zone + " too"
	case r.Details.Request != "":
		m.waits = leader.Identity + " has not answered"
	default:
		m.refused = r.Details.Refused
		m.waits = leader.Identity + " leads on: its work may take long to stop"
	}
}

// await watches the Leases until each move is over, and tells of each, or until
// ctx ends, which is no error.
func (l looker) await(ctx context.Context, namespace string, moves []*move, tell func(*move)) error {
	pending := map[types.NamespacedName]*move{}
	for _, m := range moves {
		pending[m.key()] = m
	}
	see := func(lease *coordinationv1.Lease) {
		m := pending[keyOf(lease)]
		if m == nil {
			return
		}
		if m.see(lease); m.over() {
			tell(m)
			delete(pending, m.key())
		}
	}
	for len(pending) > 0 {
		next := time.After(retry)
		if err := l.follow(ctx, namespace, see, func() bool { return len(pending) == 0 }); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		default:
		}
		if len(pending) > 0 {
			select {
			case <-next:
			case <-ctx.Done():
			}
		}
	}
	return nil
}

// follow lists Leases and watches them until the watch ends, or enough is seen.
func (l looker) follow(ctx context.Context, namespace string, see func(*coordinationv1.Lease), enough func() bool) error {
	list, err := rawapi.List[coordinationv1.LeaseList](ctx, l.coordination, apierror.Leases, namespace, "")
	if err != nil {
		return err
	}
	for i := range list.Items {
		see(&list.Items[i])
	}
	if enough() {
		return nil
	}
	events, err := l.watchLeases(ctx, namespace, list.ResourceVersion)
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
func (l looker) watchLeases(ctx context.Context, namespace, version string) (watch.Interface, error) {
	req := rawapi.Request(l.coordination, http.MethodGet, apierror.Leases, namespace).
		Param("watch", "true").Param("resourceVersion", version)
	if namespace == "" {
		// Every node renews a Lease of its own there.
		req.Param("fieldSelector", "metadata.namespace!=kube-node-lease")
	}
	events, err := req.Watch(ctx)
	if err != nil {
		return nil, apierror.Object{Resource: apierror.Leases, Namespace: namespace}.Explain(apierror.Watch, err)
	}
	return events, nil
}

// awayFrom returns the zones that a Lease says are evacuated.
func awayFrom(lease *coordinationv1.Lease, now time.Time) []string {
	var zones []string
	for _, e := range inForce(record.Read(lease).Evacuated, now) {
		zones = append(zones, e.Zone)
	}
	return zones
}

// inForce are the evacuations that are not over.
func inForce(text string, now time.Time) []locks.Evacuation {
	all, _ := locks.ParseEvacuations(text)
	return slices.DeleteFunc(all, func(e locks.Evacuation) bool { return !e.Until.IsZero() && !now.Before(e.Until) })
}

// unfit says why a candidate should not lead, as far as is known. That its
// presence stands proves little, where its node died.
func (f findings) unfit(o presence.Object) string {
	pod, node := f.around.pods[o.Name], f.around.nodes[o.Node]
	switch {
	case o.Unhealthy != "":
		return o.Unhealthy
	case pod != "" && pod != ready && pod != notReady:
		return "its pod is " + pod
	case node != "" && node != ready:
		return "its node " + o.Node + " is " + node
	}
	return ""
}

// listed lists zones as people read them.
func listed(zones []string) string {
	slices.Sort(zones)
	return cmp.Or(strings.Join(slices.Compact(zones), ", "), "none")
}

// text says who a leader is, and where.
func (l Leader) text() string {
	if l.Zone == "" {
		return l.Identity
	}
	return l.Identity + " (" + l.Zone + ")"
}
