// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// Reader reads elections. It keeps nothing between calls.
type Reader struct {
	// Core and Coordination are clients of the core group and of coordination.k8s.io, both
	// v1.
	Core, Coordination rest.Interface
	// Explain turns an error into the text of a note about what may not be read. Election,
	// Elections, Legacy and Surroundings need it.
	Explain func(error) string
}

// get reads an object; nil if it does not exist, or if none can have that name, which anybody may
// have written.
func get[T any, P rawapi.Type[T]](ctx context.Context, client rest.Interface, id apierror.Object) (P, error) {
	if nameIn(id.Name) == "" {
		return nil, nil
	}
	object, err := rawapi.New[T, P](client, id).Get(ctx)
	if id.Absent(err) {
		return nil, nil
	}
	return object, err
}

// Leases lists the Leases of a namespace; an empty one means all.
func (r Reader) Leases(ctx context.Context, namespace string) ([]coordinationv1.Lease, error) {
	return rawapi.List[coordinationv1.Lease](ctx, r.Coordination, apierror.Leases, namespace, "")
}

// Lock reads the Lease of a lock. A missing lock is no error.
func (r Reader) Lock(ctx context.Context, lock types.NamespacedName) (Election, error) {
	id := apierror.Object{Resource: apierror.Leases, Namespace: lock.Namespace, Name: lock.Name}
	lease, err := get[coordinationv1.Lease](ctx, r.Coordination, id)
	return Election{NamespacedName: lock, Lease: lease}, err
}

// Candidates lists the candidates of a lock by their presences. Only Pods and Nodes tell
// whether their pods and nodes exist.
func (r Reader) Candidates(ctx context.Context, e Election) ([]Candidate, error) {
	var all []Candidate
	for _, name := range e.rosters() {
		announced, err := presence.List(ctx, r.Coordination, e.Namespace, name)
		if err != nil {
			return nil, err
		}
		all = append(all, candidatesOf(announced)...)
	}
	return all, nil
}

// CandidatesUnknown begins the note on an election whose candidates may not be read.
const CandidatesUnknown = "the candidates are not known"

// Election reads a lock with its candidates and its legacy lock. A missing lock is not an error.
func (r Reader) Election(ctx context.Context, lock types.NamespacedName) (Election, error) {
	e, err := r.Lock(ctx, lock)
	if err != nil {
		return e, err
	}
	e.Candidates, err = r.Candidates(ctx, e)
	if err := r.tolerate(err, &e.Notes, CandidatesUnknown); err != nil {
		return e, err
	}
	return e, r.Legacy(ctx, &e)
}

// Elections reads the locks of a namespace with their candidates and their legacy
// locks. An empty namespace means all.
func (r Reader) Elections(ctx context.Context, namespace string) ([]Election, error) {
	list, err := r.Leases(ctx, namespace)
	if err != nil {
		return nil, err
	}
	found := Among(list)
	for i := range found {
		if err := r.Legacy(ctx, &found[i]); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// tolerate turns a missing permission into a note.
func (r Reader) tolerate(err error, notes *[]string, without string) error {
	if !errors.Is(err, locks.ErrForbidden) {
		return err
	}
	*notes = append(*notes, without+": "+r.Explain(err))
	return nil
}

// Legacy adds the object in the legacy lock's place. It reads nothing if the Lease does not
// mention a migration. Without a Lease it looks for a legacy lock of the same name.
func (r Reader) Legacy(ctx context.Context, e *Election) error {
	if lock, moves := e.LegacyLock(); moves || e.Lease == nil {
		return r.LegacyAt(ctx, e, lock)
	}
	return nil
}

// LegacyAt adds the object in the place of that lock. If no Lease says that it is moved, it may be
// an election record, on either kind of object.
func (r Reader) LegacyAt(ctx context.Context, e *Election, lock record.Legacy) error {
	_, moves := e.LegacyLock()
	found, err := r.legacy(ctx, e.Namespace, lock)
	if err == nil && !moves && found.Kind == ownerref.Absent {
		endpoints := record.Legacy{Resource: record.Endpoints, Name: lock.Name, Elected: true}
		if other, err := r.legacy(ctx, e.Namespace, endpoints); err == nil && other.Kind == ElectionRecord {
			lock, found = endpoints, other
		}
	}
	if err != nil {
		return r.tolerate(err, &e.Notes, "what stands in the legacy lock's place is not known")
	}
	lock.Elected = lock.Elected || !moves && found.Kind == ElectionRecord
	found.Object, found.Lock = ObjectOf(lock), lock
	e.Legacy = found
	if found.Why != "" {
		e.Notes = append(e.Notes, found.Object+": "+found.Why)
	}
	if lock.Elected && e.Phase() == record.PhaseSealed {
		e.Notes = append(e.Notes, neverSealed)
	}
	return nil
}

// legacy reads the object of a legacy lock.
func (r Reader) legacy(ctx context.Context, namespace string, lock record.Legacy) (*Legacy, error) {
	id := apierror.Object{Resource: apierror.ConfigMaps, Namespace: namespace, Name: lock.Name}
	if lock.Resource == record.Endpoints {
		id.Resource = apierror.Endpoints
		endpoints, err := get[corev1.Endpoints](ctx, r.Core, id) //nolint:staticcheck // SA1019: old electors use them
		if err != nil || endpoints == nil {
			return elected(nil), err
		}
		return elected(endpoints.Annotations), nil
	}
	cm, err := get[corev1.ConfigMap](ctx, r.Core, id)
	if err != nil {
		return nil, err
	}
	var annotations map[string]string
	if cm != nil {
		annotations = cm.Annotations
	}
	if lock.Elected {
		return elected(annotations), nil
	}
	found := recognized(cm)
	if _, elects := annotations[resourcelock.LeaderElectionRecordAnnotationKey]; elects {
		is := found.ConfigMap
		found = elected(annotations)
		found.ConfigMap = is
	}
	return found, nil
}

// Surroundings adds the states of the candidates' pods and nodes. A missing permission becomes a note.
func (r Reader) Surroundings(ctx context.Context, e *Election) error {
	if err := r.tolerate(r.Pods(ctx, e.Namespace, e.Candidates), &e.Notes, "whether the candidates' pods run is not known"); err != nil {
		return err
	}
	return r.tolerate(r.Nodes(ctx, e.Candidates), &e.Notes, "whether the candidates' nodes are ready is not known")
}

// Pods reads the candidates' pods, each once, and adds their states. If it returns an error, it has added none.
func (r Reader) Pods(ctx context.Context, namespace string, all []Candidate) error {
	pods := map[string]*corev1.Pod{}
	for _, c := range all {
		if _, known := pods[c.Pod]; known || c.Pod == "" {
			continue
		}
		var err error
		if pods[c.Pod], err = r.pod(ctx, namespace, c.Pod); err != nil {
			return err
		}
	}
	for i := range all {
		all[i].runsIn(pods[all[i].Pod])
	}
	return nil
}

// pod reads a pod; nil if it does not exist.
func (r Reader) pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	return get[corev1.Pod](ctx, r.Core, apierror.Object{Resource: apierror.Pods, Namespace: namespace, Name: name})
}

// PodState reads a pod and returns its state, which is Gone if it does not exist, or cannot.
func (r Reader) PodState(ctx context.Context, namespace, name string) (string, error) {
	pod, err := r.pod(ctx, namespace, name)
	if err != nil || pod == nil {
		return Gone, err
	}
	return podState(pod), nil
}

// Nodes adds the states of the candidates' nodes. It reads each once. If it returns an error, it has added none.
func (r Reader) Nodes(ctx context.Context, all []Candidate) error {
	states := map[string]string{}
	for _, c := range all {
		if _, known := states[c.Node]; known || c.Node == "" {
			continue
		}
		node, err := get[corev1.Node](ctx, r.Core, apierror.Object{Resource: apierror.Nodes, Name: c.Node})
		if err != nil {
			return err
		}
		states[c.Node] = nodeState(node)
	}
	for i := range all {
		all[i].NodeState = states[all[i].Node]
	}
	return nil
}

// observed is how long Observe watches at most, and observeInterval how often it reads a Lease.
const observed, observeInterval = 3 * time.Second, 500 * time.Millisecond

// Observe watches the Leases whose holders, by the wall clock, do not renew them, until each was renewed or a while
// has passed.
func (r Reader) Observe(ctx context.Context, all []Election, now func() time.Time) error {
	for start := time.Now(); time.Since(start) < observed && slices.ContainsFunc(all, func(e Election) bool { return e.doubtful(now()) }); {
		if err := sleep.For(ctx, observeInterval); err != nil {
			return err
		}
		for i := range all {
			e := &all[i]
			if !e.doubtful(now()) {
				continue
			}
			later, err := r.Lock(ctx, e.NamespacedName)
			if err != nil {
				return err
			}
			e.Watched = Watched{For: time.Since(start), Renewed: later.RenewedSince(*e)}
			e.Lease = later.Lease
		}
	}
	return nil
}
