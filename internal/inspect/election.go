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
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// Election is what was read about one lock. Fields that nobody asked for are empty.
type Election struct {
	types.NamespacedName
	Lease      *coordinationv1.Lease // nil if there is none
	Watched    Watched
	Candidates []Candidate
	// ZonesWithNodes are sorted; nil means unknown.
	ZonesWithNodes []string
	LegacyLock
}

// LegacyLock is the object in the legacy lock's place, as it was read.
type LegacyLock struct {
	Legacy *Legacy      // nil if nobody looked
	Stage  record.Stage // the stage that the object carries
	Notes  []string     // what could not be read, there and elsewhere
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
		lease := &leases[i]
		if isPresence(lease) {
			continue
		}
		e := Election{NamespacedName: KeyOf(lease), Lease: lease}
		e.Candidates = candidatesOf(presence.Among(announced[e.Namespace], e.Name))
		if len(e.Candidates) > 0 || isLock(lease) {
			found = append(found, e)
		}
	}
	return found
}

// Named returns the lock of one name among the Leases of its namespace.
func Named(leases []coordinationv1.Lease, key types.NamespacedName) Election {
	e := Election{NamespacedName: key, Candidates: candidatesOf(presence.Among(leases, key.Name))}
	for i := range leases {
		if leases[i].Name == key.Name {
			e.Lease = &leases[i]
		}
	}
	return e
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
	stage := e.Stage
	if e.Lease != nil {
		stage = record.ReadStage(e.Lease.Annotations).Later(stage)
	}
	if stage.Phase == "" && e.Legacy != nil && e.Legacy.Kind == ownerref.Legacy {
		return record.PhaseLegacy
	}
	return stage.Phase
}
