// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/legacypods"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// Inspect looks at everything once. A missing permission is a problem in the report and no
// error, except for the Lease.
func (m *Migration) Inspect(ctx context.Context) (Report, error) {
	return (&observer{Migration: m}).look(ctx)
}

// observer looks several times. Its count of legacy pods remembers what it saw of the nodes.
type observer struct {
	*Migration
	legacyPods *legacypods.Counter
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
	stage := stageOf(r.Lease.Phase, r.Lease.Step).Later(stageOf(r.ConfigMap.Phase, r.ConfigMap.Step))
	r.Legacy = r.legacy.String()
	r.Phase, r.Step = Phase(stage.Phase), stage.Step
	r.match()
	r.findProblems()
	return r, nil
}

// tolerate turns an error that leaves the rest of a report true into a problem.
func (r *Report) tolerate(err error) error {
	if errors.Is(err, locks.ErrForbidden) || errors.Is(err, legacypods.ErrSelector) {
		r.Problems = append(r.Problems, err.Error())
		return nil
	}
	return err
}

// readLease reads the Lease, and which legacy lock it is for.
func (o *observer) readLease(ctx context.Context, r *Report) error {
	lock, err := o.reader.Lock(ctx, o.lock)
	if err != nil || lock.Lease == nil {
		return err
	}
	said, stage := lock.Snapshot().Record, record.ReadStage(lock.Lease.Annotations)
	d, ours := inspect.DetailsOf(said)
	r.lease = lock.Lease
	r.Lease = LeaseReport{
		Exists: true, Phase: Phase(stage.Phase), Step: stage.Step, Holder: said.Holder,
		Ours: ours, Zone: d.Zone, Renewed: said.RenewTime, Expired: lock.Lasts() > 0 && lock.Silent(time.Now()),
	}
	r.legacy, r.holders = record.ReadLegacy(lock.Lease.Annotations), record.ReadLegacyHolders(lock.Lease.Annotations)
	return nil
}

// readCandidates lists the presences and reads their pods.
func (o *observer) readCandidates(ctx context.Context, r *Report) error {
	all, err := o.reader.Candidates(ctx, inspect.Election{NamespacedName: o.lock, Lease: r.lease})
	if err == nil {
		err = o.reader.Pods(ctx, r.Namespace, all)
	}
	if err == nil {
		r.Candidates = append(r.Candidates, all...)
	}
	return err
}

func (o *observer) readConfigMap(ctx context.Context, r *Report) error {
	cm, err := o.reader.ConfigMap(ctx, r.Namespace, r.ConfigMap.Name)
	if err != nil {
		return err
	}
	if cm != nil {
		r.elected(record.ConfigMaps, cm.Annotations)
	}
	if r.legacy.Elected {
		r.stands(record.ConfigMaps)
		return nil
	}
	is := ownerref.Recognize(cm)
	to := &r.ConfigMap
	to.shield, to.Kind, to.Why, to.Armed = is, is.Kind, is.Why, is.Armed
	to.Phase, to.Step = Phase(is.Phase), is.Step
	if is.Kind == ownerref.Legacy {
		to.Owner = is.Owner.String()
	}
	for _, p := range is.Presences {
		to.Presences = append(to.Presences, p.Name)
	}
	for _, p := range is.Presumed {
		to.Presumed = append(to.Presumed, p.String())
	}
	return nil
}

// readEndpoints looks for an election record on the Endpoints. Such a record is rare, so a
// missing permission matters only if the Lease names one.
func (o *observer) readEndpoints(ctx context.Context, r *Report) error {
	endpoints, err := o.reader.Endpoints(ctx, r.Namespace, r.ConfigMap.Name)
	if err != nil && (!errors.Is(err, locks.ErrForbidden) || r.legacy.Resource == record.Endpoints) {
		return err
	}
	if endpoints != nil {
		r.elected(record.Endpoints, endpoints.Annotations)
	}
	r.stands(record.Endpoints)
	return nil
}

// stands notes whether an object that was read is the one that an election record is moved
// from. Before a migration has begun, it is the object on which a record is found.
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
	if r.Record() != (ElectionRecord{}) {
		r.ConfigMap.Kind = inspect.ElectionRecord
	}
}

// elected adds the record of client-go's electors, if there is one.
func (r *Report) elected(resource string, annotations map[string]string) {
	said, found, err := inspect.ReadElected(annotations)
	if !found {
		return
	}
	e := ElectionRecord{Resource: resource, Holder: said.HolderIdentity}
	e.Ours = e.Holder != "" && annotations[record.AnnotationHolder] == e.Holder
	if err != nil {
		e.Error = err.Error()
	}
	r.ConfigMap.Elected = append(r.ConfigMap.Elected, e)
}

// count counts the legacy pods. M11 is off: only a candidate, which has watched them for
// longer, may presume that one is gone.
func (o *observer) count(ctx context.Context, r *Report) error {
	if r.alone() {
		return nil // there is no workload to start from, and there are no legacy pods
	}
	if o.legacyPods == nil {
		if err := o.newLegacyPods(r); err != nil {
			return err
		}
	}
	is := r.ConfigMap.shield
	count, err := o.legacyPods.Count(ctx, is.Owner, is.Seen)
	r.selector = o.legacyPods.Selector()
	if err != nil {
		o.legacyPods = nil // the pod that it started from may be gone
		r.Problems = append(r.Problems, err.Error())
		return ctx.Err()
	}
	for _, p := range count.Standing {
		r.LegacyPods = append(r.LegacyPods, LegacyPod{
			Pod: p.Pod.Name, UID: string(p.Pod.UID), Node: p.Node, State: string(p.Verdict.State), Why: p.Verdict.Why,
		})
	}
	r.Counted = true
	return nil
}

// match compares the selector with who was seen to hold the legacy lock, by the Lease or the shield.
func (r *Report) match() {
	parsed, err := labels.Parse(r.selector)
	for _, o := range r.ConfigMap.shield.Seen {
		r.holders = record.WithHolder(r.holders, record.LegacyHolder{Name: o.String()})
	}
	for _, h := range r.holders {
		if err != nil || parsed.Empty() || len(h.Labels) == 0 || !parsed.Matches(labels.Set(h.Labels)) {
			r.unmatched = append(r.unmatched, h.Name)
		}
	}
}

// newLegacyPods starts to look for the operator's pods from one that is known.
func (o *observer) newLegacyPods(r *Report) error {
	c := o.config
	var self ownerref.Owner
	if inPods := slices.DeleteFunc(r.running(), Candidate.InNoPod); len(inPods) > 0 {
		self = ownerref.Owner{Name: inPods[0].Pod, UID: types.UID(inPods[0].UID)}
	} else if c.Selector == "" {
		if self = r.ConfigMap.shield.Owner; self == (ownerref.Owner{}) {
			return fmt.Errorf("%w: neither a candidate nor a legacy leader is there to start from: give a selector of its pods", legacypods.ErrSelector)
		}
	}
	var err error
	o.legacyPods, err = legacypods.New(legacypods.Config{
		Core: c.Core, Apps: c.Apps, Coordination: c.Coordination,
		Namespace: c.Namespace, Lock: c.Lock, Self: self,
		PodSelector: c.Selector, LegacyGrace: -1,
	})
	return err
}
