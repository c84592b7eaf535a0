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
	err := o.read(ctx, &r)
	if err == nil {
		err = r.tolerate(o.count(ctx, &r))
	}
	if err != nil {
		return Report{}, fmt.Errorf("inspecting lock %s: %w", o.config.Lock, err)
	}
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

// read reads the Lease, the candidates with their pods, and what stands in the legacy lock's place.
func (o *observer) read(ctx context.Context, r *Report) error {
	e, err := o.reader.Lock(ctx, o.lock)
	if err != nil {
		return err
	}
	all, err := o.reader.Candidates(ctx, e)
	if err == nil {
		err = o.reader.Pods(ctx, r.Namespace, all)
	}
	if err == nil {
		r.Candidates = append(r.Candidates, all...)
	}
	if err := r.tolerate(err); err != nil {
		return err
	}
	lock, moves := e.LegacyLock()
	lock.Name = cmp.Or(o.config.LegacyName, lock.Name)
	if err := o.reader.LegacyAt(ctx, &e, lock); err != nil {
		return err
	}
	r.lease, r.said, r.moves = e.Lease, e.Snapshot().Record, moves
	r.expired = e.Lasts() > 0 && e.Silent(time.Now())
	if r.Legacy.Lock = lock; e.Legacy != nil {
		r.Legacy = *e.Legacy
	}
	if !r.Legacy.ConfigMap.Bare { // else the checks of a step say what to do
		r.Problems = append(r.Problems, e.Notes...)
	}
	if l := r.Legacy; l.Kind == inspect.ElectionRecord && !l.Lock.Elected && l.ConfigMap.Why != "" {
		r.Problems = append(r.Problems, l.Object+": "+l.ConfigMap.Why)
	}
	if e.Lease != nil {
		r.Lease = cmp.Or(e.Leader(), &inspect.Leader{})
		r.onLease, r.holders = record.ReadStage(e.Lease.Annotations), record.ReadLegacyHolders(e.Lease.Annotations)
	}
	r.Stage = r.onLease.Later(r.Legacy.ConfigMap.Stage)
	return nil
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
	is := r.Legacy.ConfigMap
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
	for _, o := range r.Legacy.ConfigMap.Seen {
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
		if self = r.Legacy.ConfigMap.Owner; self == (ownerref.Owner{}) {
			return fmt.Errorf("%w: neither a candidate nor a legacy leader is there to start from: give a selector of its pods",
				legacypods.ErrSelector)
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
