// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// Inspect looks at everything once. What may not be read, but for the Lease, is
// a problem in the report and no error.
func (m *Migration) Inspect(ctx context.Context) (Report, error) {
	return (&observer{Migration: m}).look(ctx)
}

// observer looks several times. The count remembers what it saw of nodes.
type observer struct {
	*Migration
	legacyPods *ownerref.LegacyPods
}

func (o *observer) look(ctx context.Context) (Report, error) {
	r := Report{Namespace: o.config.Namespace, Lock: o.config.Lock, Candidates: []Candidate{}, LegacyPods: []LegacyPod{}}
	if err := o.readLease(ctx, &r); err != nil {
		return Report{}, fmt.Errorf("inspecting lock %s: %w", o.config.Lock, err)
	}
	r.ConfigMap.Name = cmp.Or(o.config.LegacyName, r.legacy.Name, o.config.Lock)
	for _, part := range []func(context.Context, *Report) error{o.readCandidates, o.readConfigMap, o.readEndpoints, o.count} {
		if err := r.tolerate(part(ctx, &r)); err != nil {
			return Report{}, fmt.Errorf("inspecting lock %s: %w", o.config.Lock, err)
		}
	}
	stage := record.Stage{Phase: r.Lease.Phase, Step: r.Lease.Step}
	stage = stage.Later(record.Stage{Phase: r.ConfigMap.Phase, Step: r.ConfigMap.Step})
	r.Legacy = r.legacy.String()
	r.Phase, r.Step = stage.Phase, stage.Step
	r.judge()
	return r, nil
}

// tolerate makes a problem of an error that leaves the rest of a report true.
func (r *Report) tolerate(err error) error {
	if errors.Is(err, locks.ErrForbidden) || errors.Is(err, ownerref.ErrSelector) {
		r.Problems = append(r.Problems, err.Error())
		return nil
	}
	return err
}

// readLease reads the Lease, and what legacy lock it says it is for.
func (o *observer) readLease(ctx context.Context, r *Report) error {
	object, err := o.lease.Get(ctx)
	if o.lease.Name().Absent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	r.read = record.Snapshot(object)
	said, stage := r.read.Record, record.ReadStage(object.Annotations)
	r.Lease = LeaseReport{
		Exists: true, Phase: stage.Phase, Step: stage.Step, Holder: said.Holder,
		Since: said.AcquireTime, Renewed: said.RenewTime, Transitions: said.Transitions,
		DurationSeconds: int64(said.LeaseDuration / time.Second),
		Expired:         said.Holder != "" && time.Since(said.RenewTime) > said.LeaseDuration,
	}
	if d := said.Details; said.Holder != "" && d.Holder == said.Holder {
		l := &r.Lease
		l.Ours, l.Zone, l.Node, l.Pod, l.Token = true, d.Zone, d.Node, d.Pod, d.Token
	}
	r.legacy = record.ReadLegacy(object.Annotations)
	return nil
}

// readCandidates lists the presences and reads their pods.
func (o *observer) readCandidates(ctx context.Context, r *Report) error {
	all, err := presence.List(ctx, o.config.Coordination, o.config.Namespace, o.config.Lock)
	if err != nil {
		return err
	}
	for _, p := range all {
		c := Candidate{
			Identity: p.Identity, Presence: p.Name, Pod: p.Pod.Name, UID: string(p.Pod.UID), Node: p.Node, Zone: p.Zone,
			Version: p.Version, Mode: p.Mode, Waiting: p.Waiting, Holds: p.Identity != "" && p.Identity == r.Lease.Holder,
		}
		name := o.object(apierror.Pods, c.Pod)
		pod, err := rawapi.New[corev1.Pod](o.config.Core, name).Get(ctx)
		if err != nil && !name.Absent(err) {
			return err
		}
		if err == nil && pod.UID == p.Pod.UID {
			c.pod, c.Exists, c.Ready = pod, true, isReady(pod)
		}
		r.Candidates = append(r.Candidates, c)
	}
	return nil
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (o *observer) readConfigMap(ctx context.Context, r *Report) error {
	object := o.configMap(r.ConfigMap.Name)
	cm, err := object.Get(ctx)
	if object.Name().Absent(err) {
		cm, err = nil, nil
	}
	if err != nil {
		return err
	}
	if cm != nil {
		r.elected(apierror.ConfigMaps, cm.Annotations)
	}
	if r.legacy.Elected {
		r.stands(record.ConfigMaps)
		return nil
	}
	is := ownerref.Recognize(cm)
	shield, to := is.Shield, &r.ConfigMap
	to.shield, to.Kind, to.Why, to.Armed = is, is.Kind, is.Why, shield.Armed
	to.Phase, to.Step = shield.Stage.Phase, shield.Stage.Step
	if is.Kind == ownerref.Legacy {
		to.Owner = is.Owner.String()
	}
	for _, p := range shield.Presences {
		to.Presences = append(to.Presences, p.Name)
		for i := range r.Candidates {
			c := &r.Candidates[i]
			c.Shields = c.Shields || c.Presence == p.Name
		}
	}
	for _, p := range shield.Presumed {
		to.Presumed = append(to.Presumed, p.String())
	}
	return nil
}

// readEndpoints looks for an election record there. That is rare enough to do
// without it where it is not permitted.
func (o *observer) readEndpoints(ctx context.Context, r *Report) error {
	object := rawapi.New[corev1.Endpoints](o.config.Core, o.object(apierror.Endpoints, r.ConfigMap.Name)) //nolint:staticcheck // SA1019: old electors use them
	endpoints, err := object.Get(ctx)
	needless := errors.Is(err, locks.ErrForbidden) && r.legacy.Resource != record.Endpoints
	switch {
	case err == nil:
		r.elected(apierror.Endpoints, endpoints.Annotations)
	case !needless && !object.Name().Absent(err):
		return err
	}
	r.stands(record.Endpoints)
	return nil
}

// stands notes what an object is that was read, if it is the one that an
// election record is moved from. Where nothing has begun to move, a record that
// is found is what there is to move.
func (r *Report) stands(resource string) {
	begun := r.legacy != record.Legacy{} || r.Lease.Phase != "" || r.ConfigMap.Kind == ownerref.Legacy
	if !begun && len(r.ConfigMap.Elected) > 0 {
		r.legacy = record.Legacy{Resource: r.ConfigMap.Elected[0].Resource, Name: r.ConfigMap.Name, Elected: true}
		r.ConfigMap.Why, resource = "", r.legacy.Resource
	}
	if !r.legacy.Elected || r.legacy.Resource != resource {
		return
	}
	r.ConfigMap.Kind = ownerref.Absent
	if r.record() != (Elected{}) {
		r.ConfigMap.Kind = ElectionRecord
	}
}

// elected takes in the record of client-go's electors, if there is one.
func (r *Report) elected(on apierror.Resource, annotations map[string]string) {
	raw, found := annotations[resourcelock.LeaderElectionRecordAnnotationKey]
	if !found {
		return
	}
	e := Elected{Resource: on.Name}
	var said resourcelock.LeaderElectionRecord
	if err := json.Unmarshal([]byte(raw), &said); err != nil {
		e.Error = fmt.Sprintf("its election record cannot be read: %v", err)
	}
	e.Holder, e.Since, e.Renewed = record.Identity(said.HolderIdentity), said.AcquireTime.Time, said.RenewTime.Time
	e.Ours = e.Holder != "" && annotations[record.AnnotationHolder] == e.Holder
	r.ConfigMap.Elected = append(r.ConfigMap.Elected, e)
}

// count counts the legacy pods. M11 is off: what it presumes is a candidate's
// to decide, who has been looking for longer.
func (o *observer) count(ctx context.Context, r *Report) error {
	if o.legacyPods == nil {
		if err := o.newLegacyPods(r); err != nil {
			return err
		}
	}
	is := r.ConfigMap.shield
	count, err := o.legacyPods.Count(ctx, is.Owner, is.Shield.Seen)
	if err != nil {
		o.legacyPods = nil // where it started from may be gone
		r.Problems = append(r.Problems, err.Error())
		return ctx.Err()
	}
	for _, p := range count.Standing {
		r.LegacyPods = append(r.LegacyPods, LegacyPod{
			Pod: p.Pod.Name, UID: string(p.Pod.UID), Node: p.Node, State: p.Verdict.State, Why: p.Verdict.Why,
		})
	}
	r.Counted = true
	return nil
}

// newLegacyPods looks for the operator's pods from where one of them is known.
func (o *observer) newLegacyPods(r *Report) error {
	c := o.config
	var self ownerref.Owner
	if running := r.running(); len(running) > 0 {
		self = ownerref.Owner{Kind: ownerref.Pod, Name: running[0].Pod, UID: running[0].pod.UID}
	} else if c.Selector == "" {
		if self = r.ConfigMap.shield.Owner; self == (ownerref.Owner{}) {
			return fmt.Errorf("%w: neither a candidate nor a legacy leader is there to start from: give a selector of its pods", ownerref.ErrSelector)
		}
	}
	var err error
	o.legacyPods, err = ownerref.NewLegacyPods(ownerref.LegacyPodsConfig{
		Core: c.Core, Apps: c.Apps, Coordination: c.Coordination,
		Namespace: c.Namespace, Lock: c.Lock, Self: self,
		LegacyPodOptions: ownerref.LegacyPodOptions{PodSelector: c.Selector, LegacyGrace: -1},
	})
	return err
}

// controller returns the owner that keeps an object; the zero one if none does.
func controller(object metav1.Object) metav1.OwnerReference {
	if ref := metav1.GetControllerOf(object); ref != nil {
		return *ref
	}
	return metav1.OwnerReference{}
}
