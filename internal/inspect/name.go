// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// unled reports whether a leader-for-life lock is moved by whose name no legacy pod is known to have led.
func (e Election) unled() bool {
	phase := e.Phase()
	switch {
	case e.Legacy == nil || e.Legacy.led || phase != record.PhaseDual && phase != record.PhaseSealed:
		return false
	case e.Lease != nil && record.ReadLegacy(e.Lease.Annotations).Elected:
		return false
	}
	return slices.Contains([]ownerref.Kind{ownerref.Absent, ownerref.Shield, ownerref.Sealed}, e.Legacy.Kind)
}

// Meant looks for the leader-for-life lock that was meant, where the name of the legacy lock may be
// wrong: one of a pod of a candidate's workload. Pods must have been called. It is a guess: who may
// not list ConfigMaps finds none.
func (r Reader) Meant(ctx context.Context, e *Election) {
	ours := map[string]bool{}
	for _, c := range e.Candidates {
		ours[c.Workload()] = true
	}
	if delete(ours, ""); len(ours) == 0 || !e.unled() {
		return
	}
	var all []legacyObject
	q := rawapi.Query{Resource: apierror.ConfigMaps, Namespace: e.Namespace}
	_, err := rawapi.ListEach(ctx, r.Core, q, func() { all = nil }, func(event rawapi.Event[*corev1.ConfigMap]) {
		if o := recognized(event.Object); o.Kind == ownerref.Legacy && len(all) < mostFew {
			o.Object = ObjectOf(record.Legacy{Resource: record.ConfigMaps, Name: event.Object.Name})
			all = append(all, o)
		}
	})
	if err != nil {
		return
	}
	for _, o := range all {
		pod, err := get[corev1.Pod](ctx, r.Core, apierror.Object{Resource: apierror.Pods, Namespace: e.Namespace, Name: o.owner.Name})
		if err == nil && pod != nil && pod.UID == o.owner.UID && ours[WorkloadOf(pod)] {
			e.meant = &o.Legacy
			return
		}
	}
}

// Misnamed says that the name of the legacy lock may be wrong; empty if nothing speaks for it. If it
// is likely, the lock that was meant is there.
func (e Election) Misnamed() (text string, likely bool) {
	switch {
	case e.meant != nil:
		return fmt.Sprintf("%s belongs to %s, which is of a candidate's workload, and no legacy pod is known to have led by %s: the name of the legacy lock may be wrong, and then two may lead", e.meant.Object, e.meant.Holder, e.Legacy.Object), true
	case e.unled() && e.Legacy.Kind != ownerref.Absent: // else the candidate that waits says so, in time
		return fmt.Sprintf("%s names no legacy pod that led by it: if an older version ran, the name may be wrong: compare it with the old one before a rollback", e.Legacy.Object), false
	}
	return "", false
}

// checkName says that the name of the legacy lock may be wrong.
func (s *Status) checkName(e Election) {
	switch text, likely := e.Misnamed(); {
	case likely:
		s.Warn("%s", text)
	case text != "":
		s.Note("%s", text)
	}
}
