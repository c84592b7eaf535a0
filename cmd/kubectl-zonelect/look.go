// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// looker reads what there is about locks.
type looker struct {
	clients
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
	if errors.Is(err, election.ErrForbidden) {
		f.notes, err = append(f.notes, "the candidates are not known: "+err.Error()), nil
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
		if lease := &leases[i]; isLock(lease) {
			found = append(found, findings{
				namespace: lease.Namespace, name: lease.Name, lease: lease,
				presences: presence.Among(announced[lease.Namespace], lease.Name),
			})
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
	_, presence := lease.Labels[presence.Label]
	_, held := lease.Annotations[record.AnnotationHolder]
	_, phase := lease.Annotations[record.AnnotationPhase]
	return !presence && (held || phase)
}

// addLegacy reads what stands in the legacy lock's place. Without a Lease, that
// is where to look for one; with a Lease that knows of no migration it is not.
func (l looker) addLegacy(ctx context.Context, f *findings) error {
	kind, name := f.legacyObject(l.legacyName)
	if name == "" {
		return nil
	}
	resource := apierror.ConfigMaps
	if kind == "endpoints" {
		resource = apierror.Endpoints
	}
	id := apierror.Object{Resource: resource, Namespace: f.namespace, Name: name}
	annotated, err := l.legacy(ctx, id)
	if errors.Is(err, election.ErrForbidden) {
		f.notes = append(f.notes, "what stands in the legacy lock's place is not known: "+err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	f.legacy, f.stage = annotated.Legacy, annotated.stage
	f.legacy.Object = kind + "/" + name
	if annotated.why != "" {
		f.notes = append(f.notes, f.legacy.Object+": "+annotated.why)
	}
	return nil
}

// legacyObject says where the legacy lock stands; name is empty where there is
// no reason to look.
func (f findings) legacyObject(name string) (kind, object string) {
	kind, object = "configmap", name
	if f.lease == nil {
		if object == "" {
			object = f.name
		}
		return kind, object
	}
	if noted, is := f.lease.Annotations[record.AnnotationLegacy]; is {
		if before, after, found := strings.Cut(noted, "/"); found {
			kind = before
			if object == "" {
				object = after
			}
		}
	}
	if object == "" && record.ReadStage(f.lease.Annotations).Phase != "" {
		object = f.name
	}
	return kind, object
}

// past is a legacy object as it was read.
type past struct {
	*Legacy
	stage record.Stage
	why   string
}

func (l looker) legacy(ctx context.Context, id apierror.Object) (past, error) {
	if id.Resource == apierror.Endpoints {
		object := rawapi.New[corev1.Endpoints](l.core, id) //nolint:staticcheck // SA1019: that is where the lock is
		endpoints, err := object.Get(ctx)
		if id.Absent(err) {
			return past{Legacy: &Legacy{Kind: ownerref.Absent}}, nil
		}
		if err != nil {
			return past{}, err
		}
		return electedBy(endpoints.Annotations), nil
	}
	object := rawapi.New[corev1.ConfigMap](l.core, id)
	cm, err := object.Get(ctx)
	if id.Absent(err) {
		cm, err = nil, nil
	}
	if err != nil {
		return past{}, err
	}
	return recognized(cm), nil
}

// electionRecord is the kind of a lock that holds client-go's old record.
const electionRecord ownerref.Kind = "record"

// recognized says what a ConfigMap is in the place of a lock.
func recognized(cm *corev1.ConfigMap) past {
	if cm != nil {
		if _, is := cm.Annotations[resourcelock.LeaderElectionRecordAnnotationKey]; is {
			return electedBy(cm.Annotations)
		}
	}
	r := ownerref.Recognize(cm)
	p := past{Legacy: &Legacy{Kind: r.Kind, Armed: r.Shield.Armed}, stage: r.Shield.Stage, why: r.Why}
	if r.Kind == ownerref.Legacy {
		p.Holder = "pod/" + r.Owner.Name
	}
	return p
}

// electedBy reads client-go's old record.
func electedBy(annotations map[string]string) past {
	raw, is := annotations[resourcelock.LeaderElectionRecordAnnotationKey]
	if !is {
		return past{Legacy: &Legacy{Kind: ownerref.Foreign}, why: "it holds no election record"}
	}
	var r resourcelock.LeaderElectionRecord
	if err := json.Unmarshal([]byte(raw), &r); err != nil {
		return past{Legacy: &Legacy{Kind: ownerref.Foreign}, why: fmt.Sprintf("its election record is not JSON: %v", err)}
	}
	return past{Legacy: &Legacy{Kind: electionRecord, Holder: r.HolderIdentity}, stage: record.ReadStage(annotations)}
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
