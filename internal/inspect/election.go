// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inspect looks at the election of a lock: its Lease, its candidates with
// their pods and nodes, and the legacy lock that it replaces.
//
// A [Reader] reads from the API server only what its caller asks for, so that the
// caller needs no more permissions than its task does. An [Election] is what was read.
// Its methods do no I/O.
package inspect

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// Election is what was read about one lock. Fields that nobody asked for are empty.
type Election struct {
	types.NamespacedName
	Lease      *coordinationv1.Lease // nil if there is none
	Watched    Watched
	Candidates []Candidate
	Legacy     *Legacy  // the object in the legacy lock's place; nil if nobody looked
	Notes      []string // what could not be read
}

// Among returns the locks among Leases, in their order. A Lease counts as a lock
// if it has candidates or zonelect's annotations.
func Among(leases []coordinationv1.Lease) []Election {
	announced := map[string][]coordinationv1.Lease{}
	for _, lease := range leases {
		if isPresence(&lease) {
			announced[lease.Namespace] = append(announced[lease.Namespace], lease)
		}
	}
	var found []Election
	for i := range leases {
		e := Election{NamespacedName: KeyOf(&leases[i]), Lease: &leases[i]}
		if isPresence(e.Lease) {
			continue
		}
		for _, name := range e.rosters() {
			e.Candidates = append(e.Candidates, candidatesOf(presence.Among(announced[e.Namespace], name))...)
		}
		if len(e.Candidates) > 0 || isLock(e.Lease) {
			found = append(found, e)
		}
	}
	return found
}

// rosters are the names under which the lock's candidates announce themselves: the lock's own
// and, if some of them are in a Group, the name of that.
func (e Election) rosters() []string {
	names := []string{e.Name}
	if e.Lease == nil {
		return names
	}
	if shared := nameIn(e.Lease.Annotations[record.AnnotationShared]); shared != "" && shared != e.Name {
		names = append(names, shared)
	}
	return names
}

// nameIn returns the name of an object that somebody wrote; empty if none can have it.
func nameIn(text string) string {
	if len(validation.IsDNS1123Subdomain(text)) > 0 {
		return ""
	}
	return text
}

// Snapshot is what the lock's Lease says; zero without a Lease.
func (e Election) Snapshot() locks.Snapshot { return record.Snapshot(e.Lease) }

// Leader returns the holder of the lock; nil if there is none.
func (e Election) Leader() *Leader { return LeaderOf(e.Snapshot().Record) }

// RenewedSince reports whether the lock was written or renewed since it was read before.
func (e Election) RenewedSince(before Election) bool {
	if e.Lease == nil || before.Lease == nil {
		return e.Lease != before.Lease
	}
	return !equality.Semantic.DeepEqual(e.Lease.Spec, before.Lease.Spec)
}

// KeyOf names a Lease.
func KeyOf(lease *coordinationv1.Lease) types.NamespacedName {
	return types.NamespacedName{Namespace: lease.Namespace, Name: lease.Name}
}

func isPresence(lease *coordinationv1.Lease) bool {
	_, is := lease.Labels[presence.Label]
	return is
}

// isLock reports whether a Lease has annotations that zonelect programs write.
func isLock(lease *coordinationv1.Lease) bool {
	_, held := lease.Annotations[record.AnnotationHolder]
	_, phase := lease.Annotations[record.AnnotationPhase]
	return held || phase
}

// Nothing reports whether neither a Lease nor a legacy lock was found.
func (e Election) Nothing() bool {
	return e.Lease == nil && (e.Legacy == nil || e.Legacy.Kind == ownerref.Absent || e.Legacy.Kind == ownerref.Foreign)
}

// Phase is the later of the phases on the Lease and on the legacy object. If there is
// neither, a leader-for-life lock counts as phase legacy: its migration has not begun.
func (e Election) Phase() record.Phase {
	stage := record.StageOf(e.Snapshot().Version)
	if e.Legacy != nil {
		stage = stage.Later(e.Legacy.ConfigMap.Stage)
	}
	if stage.Phase == "" && e.Legacy != nil && e.Legacy.Kind == ownerref.Legacy {
		return record.PhaseLegacy
	}
	return stage.Phase
}
