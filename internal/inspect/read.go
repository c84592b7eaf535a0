// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
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
	// LegacyName is the name of the legacy object. Empty means the name on the Lease, or else
	// the lock's name.
	LegacyName string
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

// Lease reads a Lease, as Trim leaves it; nil if it does not exist.
func (r Reader) Lease(ctx context.Context, key types.NamespacedName) (*coordinationv1.Lease, error) {
	lease, err := get[coordinationv1.Lease](ctx, r.Coordination, apierror.Object{Resource: apierror.Leases, Namespace: key.Namespace, Name: key.Name})
	return Trim(lease), err
}

// Leases lists the Leases of a namespace, as Trim leaves them; an empty one means all.
func (r Reader) Leases(ctx context.Context, namespace string) (rawapi.Listing[coordinationv1.Lease], error) {
	q := rawapi.Query{Resource: apierror.Leases, Namespace: namespace}
	return rawapi.Collect(ctx, r.Coordination, q, func(e rawapi.Event[*coordinationv1.Lease]) *coordinationv1.Lease { return Trim(e.Object) })
}

// ConfigMap reads a ConfigMap; nil if it does not exist.
func (r Reader) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	return get[corev1.ConfigMap](ctx, r.Core, apierror.Object{Resource: apierror.ConfigMaps, Namespace: namespace, Name: name})
}

// Endpoints reads an Endpoints object; nil if it does not exist.
func (r Reader) Endpoints(ctx context.Context, namespace, name string) (*corev1.Endpoints, error) { //nolint:staticcheck // SA1019: old electors use them
	return get[corev1.Endpoints](ctx, r.Core, apierror.Object{Resource: apierror.Endpoints, Namespace: namespace, Name: name}) //nolint:staticcheck // SA1019: the same
}

// Lock reads the Lease of a lock. A missing lock is no error.
func (r Reader) Lock(ctx context.Context, lock types.NamespacedName) (Election, error) {
	lease, err := r.Lease(ctx, lock)
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
		all = append(all, among(name, announced)...)
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
	e.Bound()
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
	found := Among(list.Items)
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
	lock := e.legacyLock(r.LegacyName)
	if lock.Name == "" {
		return nil
	}
	found, err := r.legacy(ctx, e.Namespace, lock)
	if err == nil && e.Lease == nil && found.Kind == ownerref.Absent {
		endpoints := record.Legacy{Resource: record.Endpoints, Name: lock.Name, Elected: true}
		if other, err := r.legacy(ctx, e.Namespace, endpoints); err == nil && other.Kind == ElectionRecord {
			lock, found = endpoints, other
		}
	}
	if err != nil {
		return r.tolerate(err, &e.Notes, "what stands in the legacy lock's place is not known")
	}
	found.Object = ObjectOf(lock)
	e.Legacy, e.Stage = &found.Legacy, found.stage
	if found.why != "" {
		e.Notes = append(e.Notes, found.Object+": "+found.why)
	}
	if lock.Elected && e.Phase() == record.PhaseSealed {
		e.Notes = append(e.Notes, NeverSealed)
	}
	return nil
}

// legacy reads the object of a legacy lock.
func (r Reader) legacy(ctx context.Context, namespace string, lock record.Legacy) (legacyObject, error) {
	if lock.Resource == record.Endpoints {
		endpoints, err := r.Endpoints(ctx, namespace, lock.Name)
		if err != nil || endpoints == nil {
			return elected(nil), err
		}
		return elected(endpoints.Annotations), nil
	}
	cm, err := r.ConfigMap(ctx, namespace, lock.Name)
	if err != nil {
		return legacyObject{}, err
	}
	var annotations map[string]string
	if cm != nil {
		annotations = cm.Annotations
	}
	if _, is := annotations[resourcelock.LeaderElectionRecordAnnotationKey]; is || lock.Elected {
		return elected(annotations), nil
	}
	return recognized(cm), nil
}

// Surroundings adds the states of the candidates' pods and nodes, and which zones have nodes.
// A missing permission becomes a note. It looks at the first few hundred candidates only.
func (r Reader) Surroundings(ctx context.Context, e *Election) error {
	looked := e.Candidates[:min(len(e.Candidates), mostCandidates)]
	if left := len(e.Candidates) - len(looked); left > 0 {
		e.Notes = append(e.Notes, fmt.Sprintf("whether the pods of %d candidates run was not looked at: there are too many", left))
	}
	err := r.tolerate(r.Pods(ctx, e.Namespace, looked), &e.Notes, "whether the candidates' pods run is not known")
	if err != nil {
		return err
	}
	err = r.tolerate(r.Nodes(ctx, looked), &e.Notes, "whether the candidates' nodes are ready is not known")
	if err != nil {
		return err
	}
	e.ZonesWithNodes, err = r.ZonesWithNodes(ctx)
	return r.tolerate(err, &e.Notes, "which zones have nodes is not known")
}

// Pods reads the candidates' pods and adds their states. It reads each pod once or, if there are
// many and that is permitted, all pods by one list. If it returns an error, it has added none.
func (r Reader) Pods(ctx context.Context, namespace string, all []Candidate) error {
	pods := map[string]*corev1.Pod{}
	for _, c := range all {
		if nameIn(c.Pod) != "" { // anybody may have written it
			pods[c.Pod] = nil
		}
	}
	read := r.eachPod
	if len(pods) > fewPods {
		read = r.allPods
	}
	err := read(ctx, namespace, pods)
	if errors.Is(err, locks.ErrForbidden) && len(pods) > fewPods {
		err = r.eachPod(ctx, namespace, pods)
	}
	if err != nil {
		return err
	}
	for i := range all {
		all[i].runsIn(pods[all[i].Pod])
	}
	return nil
}

const (
	// fewPods is how many pods are read one by one.
	fewPods = 50
	// readers is how many of them are read at a time at most; if they are few, it is one.
	readers = 8
)

// allPods fills in the pods that exist, by one list.
func (r Reader) allPods(ctx context.Context, namespace string, pods map[string]*corev1.Pod) error {
	none := func() {
		for name := range pods {
			pods[name] = nil
		}
	}
	q := rawapi.Query{Resource: apierror.Pods, Namespace: namespace}
	_, err := rawapi.ListEach(ctx, r.Core, q, none, func(e rawapi.Event[*corev1.Pod]) {
		if _, wanted := pods[e.Object.Name]; wanted {
			pods[e.Object.Name] = e.Object
		}
	})
	return err
}

// eachPod fills in the pods that exist, one by one.
func (r Reader) eachPod(ctx context.Context, namespace string, pods map[string]*corev1.Pod) error {
	var mu sync.Mutex
	return each(ctx, slices.Sorted(maps.Keys(pods)), func(ctx context.Context, name string) error {
		pod, err := get[corev1.Pod](ctx, r.Core, apierror.Object{Resource: apierror.Pods, Namespace: namespace, Name: name})
		mu.Lock()
		defer mu.Unlock()
		pods[name] = pod
		return err
	})
}

// each reads by names, several at a time if they are many, until one fails.
func each(ctx context.Context, names []string, read func(context.Context, string) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var failed error
	var reading sync.WaitGroup
	places := make(chan struct{}, min(readers, 1+len(names)/readers))
	for _, name := range names {
		places <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		reading.Go(func() {
			defer func() { <-places }()
			err := read(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			if err != nil && failed == nil {
				failed = err
				cancel()
			}
		})
	}
	reading.Wait()
	return cmp.Or(failed, ctx.Err())
}

// PodState reads a pod and returns its state, which is Gone if it does not exist, or cannot.
func (r Reader) PodState(ctx context.Context, namespace, name string) (string, error) {
	pod, err := get[corev1.Pod](ctx, r.Core, apierror.Object{Resource: apierror.Pods, Namespace: namespace, Name: name})
	if err != nil || pod == nil {
		return Gone, err
	}
	return podState(pod), nil
}

// Nodes adds the states of the candidates' nodes. If there are many candidates, it leaves out
// those whose pods are known to be gone. It reads each node once. If it returns an error, it has added none.
func (r Reader) Nodes(ctx context.Context, all []Candidate) error {
	states := map[string]string{}
	for _, c := range all {
		if _, known := states[c.Node]; known || c.Node == "" || len(all) > fewPods && c.PodState == Gone {
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

// mostZones bounds how many zones are looked for.
const mostZones = 20

// ZonesWithNodes returns the zones that have nodes, sorted. It makes one request
// for each zone instead of listing the nodes: there may be thousands of them.
func (r Reader) ZonesWithNodes(ctx context.Context) ([]string, error) {
	var zones []string
	for len(zones) < mostZones {
		others := corev1.LabelTopologyZone
		if len(zones) > 0 {
			others += "," + corev1.LabelTopologyZone + " notin (" + strings.Join(zones, ",") + ")"
		}
		list := &corev1.NodeList{}
		err := rawapi.Request(r.Core, http.MethodGet, apierror.Nodes, "").Param("labelSelector", others).Param("limit", "1").Do(ctx).Into(list)
		if err != nil {
			return nil, apierror.Object{Resource: apierror.Nodes}.Explain(apierror.List, err)
		}
		if len(list.Items) == 0 || list.Items[0].Labels[corev1.LabelTopologyZone] == "" {
			break
		}
		zones = append(zones, list.Items[0].Labels[corev1.LabelTopologyZone])
	}
	slices.Sort(zones)
	return zones, nil
}

// observeInterval is how often Observe reads a Lease.
const observeInterval = 500 * time.Millisecond

// Observe watches the Leases whose holders, by the wall clock, do not renew them, until each
// was renewed or that much time has passed.
func (r Reader) Observe(ctx context.Context, all []Election, now func() time.Time, most time.Duration) error {
	for start := time.Now(); ; {
		var doubtful []*Election
		for i := range all {
			if e := &all[i]; e.doubtful(now()) {
				e.Watched.For = time.Since(start)
				doubtful = append(doubtful, e)
			}
		}
		left := most - time.Since(start)
		if len(doubtful) == 0 || left <= 0 {
			return nil
		}
		if err := sleep.For(ctx, min(left, observeInterval)); err != nil {
			return err
		}
		if err := r.lookAgain(ctx, doubtful); err != nil {
			return err
		}
	}
}

// lookAgain reads locks again, and notes which of them were renewed. If a namespace has
// several of them, it lists the Leases there.
func (r Reader) lookAgain(ctx context.Context, all []*Election) error {
	in := map[string][]*Election{}
	for _, e := range all {
		in[e.Namespace] = append(in[e.Namespace], e)
	}
	for namespace, all := range in {
		now, err := r.again(ctx, namespace, all)
		if err != nil {
			return err
		}
		for i, e := range all {
			e.Watched.Renewed, e.Watched.Ago = now[i].RenewedSince(*e), 0
			e.Lease = now[i].Lease
		}
	}
	return nil
}

// again reads the Leases of locks of one namespace.
func (r Reader) again(ctx context.Context, namespace string, all []*Election) ([]Election, error) {
	if len(all) == 1 {
		one, err := r.Lock(ctx, all[0].NamespacedName)
		return []Election{one}, err
	}
	list, err := r.Leases(ctx, namespace)
	if err != nil {
		return nil, err
	}
	named := byName(list.Items)
	now := make([]Election, len(all))
	for i, e := range all {
		now[i] = Election{NamespacedName: e.NamespacedName, Lease: named[e.NamespacedName]}
	}
	return now, nil
}
