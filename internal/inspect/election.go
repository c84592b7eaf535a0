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
	"cmp"
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

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
	// ZonesWithNodes are sorted; nil means unknown.
	ZonesWithNodes []string
	// labels are the zones of nodes that [Zones] has read.
	labels map[string]label
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
		e.announce(announced[e.Namespace])
		e.Bound()
		if len(e.Candidates) > 0 || isLock(lease) {
			found = append(found, e)
		}
	}
	return found
}

func byName(leases []coordinationv1.Lease) map[types.NamespacedName]*coordinationv1.Lease {
	all := map[types.NamespacedName]*coordinationv1.Lease{}
	for i := range leases {
		all[KeyOf(&leases[i])] = &leases[i]
	}
	return all
}

// Named returns the lock of one name among the Leases of its namespace.
func Named(leases []coordinationv1.Lease, key types.NamespacedName) Election {
	e := Election{NamespacedName: key, Lease: byName(leases)[key]}
	e.announce(leases)
	e.Bound()
	return e
}

// announce adds the candidates that have announced themselves among Leases of the lock's
// namespace.
func (e *Election) announce(leases []coordinationv1.Lease) {
	for _, name := range e.rosters() {
		e.Candidates = append(e.Candidates, among(name, presence.Among(leases, name))...)
	}
}

// mostCandidates is how many candidates of a lock are looked at: anybody who may create a Lease
// can invent some.
const mostCandidates = 300

// Bound leaves out candidates if there are too many, and notes how many. Those stay that
// announced themselves first: whoever invents some comes after the candidates that were there. Those
// that are known to be gone come last.
func (e *Election) Bound() {
	left := len(e.Candidates) - mostCandidates
	if left <= 0 {
		return
	}
	byAge := slices.SortedStableFunc(slices.Values(e.Candidates), func(a, b Candidate) int {
		if gone := a.PodState == Gone; gone != (b.PodState == Gone) {
			return map[bool]int{true: 1, false: -1}[gone]
		}
		return cmp.Compare(a.created, b.created)
	})
	stay := map[*Part]bool{}
	for _, c := range byAge[:mostCandidates] {
		stay[c.Part] = true
	}
	e.Candidates = slices.DeleteFunc(e.Candidates, func(c Candidate) bool { return !stay[c.Part] })
	e.Notes = append(e.Notes, fmt.Sprintf("%d more candidates have announced themselves, and are left out: somebody may have made them up", left))
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
func (e Election) Leader() *Leader {
	l := LeaderOf(e.Snapshot().Record)
	if l != nil {
		e.locate(l)
	}
	return l
}

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

// mostText is how much is kept of a text on a Lease, in bytes. Nothing that a zonelect program
// writes is longer.
const mostText = 16 << 10

// Trim removes from a Lease, which may be nil, what nobody here looks at, and returns it. A text
// that is too long to make sense is cut, and still is too long. The Lease must not be written.
func Trim(lease *coordinationv1.Lease) *coordinationv1.Lease {
	if lease == nil {
		return nil
	}
	lease.ManagedFields = nil
	for key, text := range lease.Annotations {
		ours := strings.HasPrefix(key, "zonelect.dev/") || key == resourcelock.LeaderElectionRecordAnnotationKey
		switch {
		case !ours:
			delete(lease.Annotations, key)
		case len(text) > mostText:
			lease.Annotations[key] = strings.Clone(text[:mostText+1])
		}
	}
	if len(lease.Labels) > mostFew {
		label, is := lease.Labels[presence.Label]
		if lease.Labels = nil; is {
			lease.Labels = map[string]string{presence.Label: label}
		}
	}
	lease.OwnerReferences = lease.OwnerReferences[:min(len(lease.OwnerReferences), mostFew)]
	lease.Finalizers = lease.Finalizers[:min(len(lease.Finalizers), mostFew)]
	if holder := lease.Spec.HolderIdentity; holder != nil {
		short := strings.Clone(record.Identity(*holder))
		lease.Spec.HolderIdentity = &short
	}
	lease.Spec.Strategy, lease.Spec.PreferredHolder = nil, nil
	return lease
}

// mostFew is how many there are of what a Lease has few of.
const mostFew = 20

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
