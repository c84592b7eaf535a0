// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"cmp"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
)

// NodeLeases is the namespace in which each node renews a Lease of its own: a heartbeat, and no election.
const NodeLeases = corev1.NamespaceNodeLease

// labelServer marks the Lease by which an API server announces itself.
const labelServer = "apiserver.kubernetes.io/identity"

// Watch keeps what is seen of Leases. It keeps no Lease that is not an election.
type Watch struct {
	seen map[types.NamespacedName]*seen

	LeftOut LeftOut
}

// LeftOut counts the Leases that are not elections.
type LeftOut struct {
	Nodes      int `json:"nodes"`      // heartbeats of nodes that were seen nevertheless
	Servers    int `json:"servers"`    // of API servers
	Candidates int `json:"candidates"` // that candidates of zonelect announce themselves with
	Empty      int `json:"empty"`      // without holder, duration and time
}

// seen is what was seen of one Lease.
type seen struct {
	lease   *coordinationv1.Lease // nil once it is deleted
	writer  string
	created time.Time
	states  []State
}

// NewWatch returns a Watch that has seen nothing.
func NewWatch() *Watch {
	return &Watch{seen: map[types.NamespacedName]*seen{}}
}

// List takes all Leases as they are. After the first time, nothing is known of what came between
// the last event and the list.
func (w *Watch) List(at time.Time, all []*coordinationv1.Lease) {
	w.LeftOut = LeftOut{}
	present := map[types.NamespacedName]bool{}
	for _, lease := range all {
		if w.LeftOut.isNone(lease) {
			continue
		}
		present[inspect.KeyOf(lease)] = true
		w.keep(lease)
	}
	for key, s := range w.seen {
		if !present[key] {
			s.lease = nil
		}
	}
	for key := range w.seen {
		w.note(at, key, true)
	}
}

// Written takes a Lease that was created or changed.
func (w *Watch) Written(at time.Time, lease *coordinationv1.Lease) {
	if new(LeftOut).isNone(lease) {
		return
	}
	w.keep(lease)
	w.note(at, inspect.KeyOf(lease), false)
}

// Deleted takes a Lease that was deleted.
func (w *Watch) Deleted(at time.Time, lease *coordinationv1.Lease) {
	if s := w.seen[inspect.KeyOf(lease)]; s != nil {
		s.lease = nil
		w.note(at, inspect.KeyOf(lease), false)
	}
}

// isNone reports whether a Lease is not an election, and counts it.
func (l *LeftOut) isNone(lease *coordinationv1.Lease) bool {
	_, candidate := lease.Labels[presence.Label]
	_, server := lease.Labels[labelServer]
	spec := lease.Spec
	switch {
	case lease.Namespace == NodeLeases:
		l.Nodes++
	case candidate:
		l.Candidates++
	case server && lease.Namespace == metav1.NamespaceSystem:
		l.Servers++
	case spec.HolderIdentity == nil && spec.LeaseDurationSeconds == nil && spec.RenewTime == nil:
		l.Empty++
	default:
		return false
	}
	return true
}

func (w *Watch) keep(lease *coordinationv1.Lease) {
	key := inspect.KeyOf(lease)
	if w.seen[key] == nil {
		w.seen[key] = &seen{}
	}
	s := w.seen[key]
	s.writer, s.created = writerOf(lease.ManagedFields), lease.CreationTimestamp.Time
	s.lease = inspect.Trim(lease)
}

// note notes the state of an election if it has changed.
func (w *Watch) note(at time.Time, key types.NamespacedName, listed bool) {
	s := w.seen[key]
	if s == nil {
		return
	}
	now := State{At: at, Blind: listed}
	if s.lease != nil {
		now = stateOf(at, s.lease, listed)
	}
	if n := len(s.states); n > 0 {
		before := s.states[n-1]
		before.At, before.Blind = now.At, now.Blind
		if before == now {
			return
		}
	}
	s.states = append(s.states, now)
}

func stateOf(at time.Time, lease *coordinationv1.Lease, listed bool) State {
	e := inspect.Election{Lease: lease}
	r := e.Snapshot().Record
	return State{
		At: at, Blind: listed, Holder: r.Holder, Lease: e.Lasts(), Renewed: r.RenewTime, Changes: r.Transitions,
		Zonelect: r.Holder != "" && r.Details.Holder == r.Holder, Pod: podOf(r.Holder, r.Details.Holder, lease.Annotations[record.AnnotationPod]),
	}
}

// podOf is the pod that a holder of zonelect names.
func podOf(holder, of, pod string) string {
	if holder == "" || holder != of {
		return ""
	}
	return pod
}

// Elections are those that were seen and not deleted.
func (w *Watch) Elections() []Election {
	var all []Election
	for _, key := range slices.SortedFunc(maps.Keys(w.seen), func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) }) {
		s := w.seen[key]
		if s.lease == nil {
			continue
		}
		all = append(all, Election{
			Kind: OnLease, Namespace: key.Namespace, Name: key.Name, Writer: s.writer, Created: s.created,
			Phase: string(record.ReadStage(s.lease.Annotations).Phase), States: s.states,
		})
	}
	return all
}

// writerOf is the field manager of the last write. A client that does not choose one has the beginning
// of its User-Agent.
func writerOf(fields []metav1.ManagedFieldsEntry) string {
	last := metav1.ManagedFieldsEntry{}
	for _, f := range fields {
		if f.Subresource == "" && (last.Time == nil || f.Time != nil && !f.Time.Before(last.Time)) {
			last = f
		}
	}
	return last.Manager
}
