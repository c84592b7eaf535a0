// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/ownerref"
	"github.com/zonelect/zonelect/migrate"
)

// looker reads what there is about locks.
type looker struct {
	clients
	role role // that permits it
	// legacyName is the name of the legacy object; empty for what the Lease
	// says, or else the lock's name.
	legacyName string
}

// one reads what there is about one lock. That there is nothing is no error.
func (l looker) one(ctx context.Context, namespace, name string) (findings, error) {
	lease, err := l.lease(ctx, namespace, name)
	if err != nil {
		return findings{}, err
	}
	f := findings{namespace: namespace, name: name, lease: lease}
	f.presences, err = presence.List(ctx, l.coordination, namespace, name)
	if errors.Is(err, locks.ErrForbidden) {
		f.notes, err = append(f.notes, "the candidates are not known: "+l.role.explained(err)), nil
	}
	if err != nil {
		return f, err
	}
	return f, l.addLegacy(ctx, &f)
}

// lease reads a Lease; nil if there is none.
func (l looker) lease(ctx context.Context, namespace, name string) (*coordinationv1.Lease, error) {
	object := rawapi.New[coordinationv1.Lease](l.coordination, apierror.Object{Resource: apierror.Leases, Namespace: namespace, Name: name})
	lease, err := object.Get(ctx)
	if object.Name().Absent(err) {
		return nil, nil
	}
	return lease, err
}

// all reads what there is about all locks of a namespace, or of all if that is
// empty.
func (l looker) all(ctx context.Context, namespace string) ([]findings, error) {
	list, err := rawapi.List[coordinationv1.LeaseList](ctx, l.coordination, apierror.Leases, namespace, "")
	if err != nil {
		return nil, err
	}
	found := among(list.Items)
	for i := range found {
		if err := l.addLegacy(ctx, &found[i]); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// among finds the locks among Leases, in their order.
func among(leases []coordinationv1.Lease) []findings {
	announced := map[string][]coordinationv1.Lease{}
	for _, lease := range leases {
		if _, is := lease.Labels[presence.Label]; is {
			announced[lease.Namespace] = append(announced[lease.Namespace], lease)
		}
	}
	var found []findings
	for i := range leases {
		lease := &leases[i]
		f := findings{namespace: lease.Namespace, name: lease.Name, lease: lease}
		if _, is := lease.Labels[presence.Label]; is {
			continue
		}
		if f.presences = presence.Among(announced[f.namespace], f.name); len(f.presences) > 0 || isLock(lease) {
			found = append(found, f)
		}
	}
	return found
}

// named finds the lock of one name among Leases.
func named(leases []coordinationv1.Lease, namespace, name string) findings {
	f := findings{namespace: namespace, name: name, presences: presence.Among(leases, name)}
	for i := range leases {
		if leases[i].Name == name {
			f.lease = &leases[i]
		}
	}
	return f
}

// isLock reports whether a Lease is a lock that zonelect programs know of.
func isLock(lease *coordinationv1.Lease) bool {
	_, held := lease.Annotations[record.AnnotationHolder]
	_, phase := lease.Annotations[record.AnnotationPhase]
	return held || phase
}

// addLegacy reads what stands in the legacy lock's place. Without a Lease, that
// is where to look for one; with a Lease that knows of no migration it is not.
func (l looker) addLegacy(ctx context.Context, f *findings) error {
	lock := f.legacyLock(l.legacyName)
	if lock.Name == "" {
		return nil
	}
	found, err := l.legacy(ctx, f.namespace, lock)
	if err == nil && f.lease == nil && found.Kind == ownerref.Absent {
		endpoints := record.Legacy{Resource: record.Endpoints, Name: lock.Name, Elected: true}
		if other, err := l.legacy(ctx, f.namespace, endpoints); err == nil && other.Kind == migrate.ElectionRecord {
			lock, found = endpoints, other
		}
	}
	if errors.Is(err, locks.ErrForbidden) {
		f.notes = append(f.notes, "what stands in the legacy lock's place is not known: "+l.role.explained(err))
		return nil
	}
	if err != nil {
		return err
	}
	f.legacy, f.stage = found.Legacy, found.stage
	f.legacy.Object = objectKinds[lock.Resource] + "/" + lock.Name
	if found.why != "" {
		f.notes = append(f.notes, f.legacy.Object+": "+found.why)
	}
	if lock.Elected && f.phase() == record.PhaseSealed {
		f.notes = append(f.notes, "an election record cannot be sealed: candidates take this phase for dual, roll back to that")
	}
	return nil
}

// objectKinds are the kinds of objects as kubectl takes them.
var objectKinds = map[string]string{record.ConfigMaps: "configmap", record.Endpoints: "endpoints"}

// legacyLock says what the legacy lock is; its name is empty where there is no
// reason to look.
func (f findings) legacyLock(name string) record.Legacy {
	lock := record.Legacy{Resource: record.ConfigMaps}
	if f.lease == nil {
		lock.Name = cmp.Or(name, f.name)
		return lock
	}
	if noted := record.ReadLegacy(f.lease.Annotations); noted != (record.Legacy{}) {
		lock = noted
	} else if record.ReadStage(f.lease.Annotations).Phase != "" {
		lock.Name = f.name
	}
	lock.Name = cmp.Or(name, lock.Name)
	return lock
}

// past is a legacy object as it was read.
type past struct {
	*Legacy
	stage record.Stage
	why   string
}

// legacy reads the object of a legacy lock.
func (l looker) legacy(ctx context.Context, namespace string, lock record.Legacy) (past, error) {
	if lock.Resource == record.Endpoints {
		id := apierror.Object{Resource: apierror.Endpoints, Namespace: namespace, Name: lock.Name}
		endpoints, err := rawapi.New[corev1.Endpoints](l.core, id).Get(ctx) //nolint:staticcheck // SA1019: that is where the lock is
		if err != nil && !id.Absent(err) {
			return past{}, err
		}
		if err != nil {
			endpoints = &corev1.Endpoints{} //nolint:staticcheck // SA1019: the same
		}
		return electedBy(endpoints.Annotations), nil
	}
	id := apierror.Object{Resource: apierror.ConfigMaps, Namespace: namespace, Name: lock.Name}
	cm, err := rawapi.New[corev1.ConfigMap](l.core, id).Get(ctx)
	if err != nil && !id.Absent(err) {
		return past{}, err
	}
	var annotations map[string]string
	if err != nil {
		cm = nil
	} else {
		annotations = cm.Annotations
	}
	if _, is := annotations[resourcelock.LeaderElectionRecordAnnotationKey]; is || lock.Elected {
		return electedBy(annotations), nil
	}
	return recognized(cm), nil
}

// recognized says what a ConfigMap is in the place of a leader-for-life lock.
func recognized(cm *corev1.ConfigMap) past {
	r := ownerref.Recognize(cm)
	p := past{Legacy: &Legacy{Kind: r.Kind, Armed: r.Shield.Armed}, stage: r.Shield.Stage, why: r.Why}
	if r.Kind == ownerref.Legacy {
		p.Holder = "pod/" + r.Owner.Name
	}
	return p
}

// electedBy reads client-go's old record. An object without one is as good as
// none.
func electedBy(annotations map[string]string) past {
	raw, is := annotations[resourcelock.LeaderElectionRecordAnnotationKey]
	if !is {
		return past{Legacy: &Legacy{Kind: ownerref.Absent}}
	}
	var r resourcelock.LeaderElectionRecord
	if err := json.Unmarshal([]byte(raw), &r); err != nil {
		return past{Legacy: &Legacy{Kind: ownerref.Foreign}, why: fmt.Sprintf("its election record is not JSON: %v", err)}
	}
	return past{Legacy: &Legacy{Kind: migrate.ElectionRecord, Holder: r.HolderIdentity}}
}

// recheck is how often a Lease that is watched for renewals is read.
const recheck = 500 * time.Millisecond

// observe watches the Leases whose holders, by the wall clock, do not renew,
// until each was renewed or so much time has passed.
func (l looker) observe(ctx context.Context, found []findings, now func() time.Time, most time.Duration) error {
	start := time.Now()
	for {
		waiting := false
		for i := range found {
			f := &found[i]
			if f.lease == nil || f.seen.renewed || !doubtful(f.lease, now()) {
				continue
			}
			f.seen.watched = time.Since(start)
			waiting = true
		}
		left := most - time.Since(start)
		if !waiting || left <= 0 {
			return nil
		}
		select {
		case <-time.After(min(left, recheck)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := l.again(ctx, found, now); err != nil {
			return err
		}
	}
}

// again reads the doubtful Leases anew.
func (l looker) again(ctx context.Context, found []findings, now func() time.Time) error {
	for i := range found {
		f := &found[i]
		if f.lease == nil || f.seen.renewed || !doubtful(f.lease, now()) {
			continue
		}
		lease, err := l.lease(ctx, f.namespace, f.name)
		if err != nil {
			return err
		}
		if lease == nil || !equality.Semantic.DeepEqual(lease.Spec, f.lease.Spec) {
			f.lease, f.seen.renewed = lease, true
		}
	}
	return nil
}
