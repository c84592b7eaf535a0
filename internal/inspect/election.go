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
	Heart      *coordinationv1.Lease // of the heartbeat that keeps the lock; nil if there is none
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

	meant *Legacy // the leader-for-life lock that may have been meant; nil if none is known
}

// Among returns the locks among Leases, in their order. A Lease counts as a lock
// if it has candidates or zonelect's annotations, unless it is that of a heartbeat.
func Among(leases []coordinationv1.Lease) []Election {
	announced := map[string][]coordinationv1.Lease{}
	for _, lease := range leases {
		if isPresence(&lease) {
			announced[lease.Namespace] = append(announced[lease.Namespace], lease)
		}
	}
	named := byName(leases)
	var found []Election
	for i := range leases {
		lease := &leases[i]
		if isPresence(lease) || record.IsHeartbeat(lease) {
			continue
		}
		e := At(KeyOf(lease), named.find)
		e.announce(announced[e.Namespace])
		e.Bound()
		if len(e.Candidates) > 0 || isLock(lease) {
			found = append(found, e)
		}
	}
	return found
}

// index finds Leases by their names.
type index map[types.NamespacedName]*coordinationv1.Lease

func byName(leases []coordinationv1.Lease) index {
	all := index{}
	for i := range leases {
		all[KeyOf(&leases[i])] = &leases[i]
	}
	return all
}

func (x index) find(key types.NamespacedName) *coordinationv1.Lease { return x[key] }

// Named returns the lock of one name among the Leases of its namespace.
func Named(leases []coordinationv1.Lease, key types.NamespacedName) Election {
	e := At(key, byName(leases).find)
	e.announce(leases)
	e.Bound()
	return e
}

// At returns a lock with its Lease and that of the heartbeat that keeps it, as find finds
// them. find returns nil for a Lease that does not exist.
func At(key types.NamespacedName, find func(types.NamespacedName) *coordinationv1.Lease) Election {
	e := Election{NamespacedName: key, Lease: find(key)}
	if name := e.heartName(); name != "" {
		e.Heart = find(types.NamespacedName{Namespace: key.Namespace, Name: name})
	}
	return e
}

// heartName is the name of the heartbeat's Lease that keeps the lock; empty if none does, or
// if no Lease can have that name.
func (e Election) heartName() string {
	if e.Lease == nil {
		return ""
	}
	if record.Read(e.Lease).Holder == "" {
		return ""
	}
	return nameIn(record.HeartbeatOf(e.Lease))
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

// Compose returns what a lock's Lease and the Lease of the heartbeat that keeps it say together, and
// why the holder's term is over although the lock names it; empty if it is not. A program that
// knows heartbeats replaces it before it looks at anything.
var Compose = func(lock, _ *coordinationv1.Lease) (s locks.Snapshot, void string) { return record.Snapshot(lock), "" }

// Snapshot is what the lock's Lease and the heartbeat that keeps it say together; zero
// without a Lease.
func (e Election) Snapshot() locks.Snapshot {
	s, _ := Compose(e.Lease, e.Heart)
	return s
}

// Void is why the holder's term is over although the Lease names it; empty if it is not.
func (e Election) Void() string {
	_, void := Compose(e.Lease, e.Heart)
	return void
}

// Leader returns the holder of the lock; nil if there is none.
func (e Election) Leader() *Leader {
	l := LeaderOf(e.Snapshot().Record)
	if l != nil {
		l.Heartbeat = e.heartName()
		e.locate(l)
	}
	return l
}

// RenewedSince reports whether the lock was written or renewed since it was read before.
func (e Election) RenewedSince(before Election) bool {
	switch {
	case e.Lease == nil || before.Lease == nil:
		return e.Lease != before.Lease
	case !equality.Semantic.DeepEqual(e.Lease.Spec, before.Lease.Spec):
		return true
	}
	now := e.Snapshot()
	return e.Void() == "" && !now.Record.RenewTime.Equal(before.Snapshot().Record.RenewTime)
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
// writes is longer, but the note of a heartbeat.
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
		case len(text) > mostText && key != record.AnnotationReleasedLocks:
			lease.Annotations[key] = strings.Clone(text[:mostText+1])
		}
	}
	if len(lease.Labels) > mostFew {
		label, is := lease.Labels[presence.Label]
		role := lease.Labels[record.LabelRole]
		if lease.Labels = map[string]string{record.LabelRole: role}; is {
			lease.Labels[presence.Label] = label
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
