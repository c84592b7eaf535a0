// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// apiVersion is that of the objects that are printed. No server knows it.
const apiVersion = "zonelect.dev/v1alpha1"

// LockStatus is what is known of one lock. It is printed, and never stored.
type LockStatus struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Status Status `json:"status"`
}

// LockStatusList holds several.
type LockStatusList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []LockStatus `json:"items"`
}

// State says whether a lock is held.
type State string

// The states of a lock.
const (
	Held     State = "held"
	Waiting  State = "waiting"  // it is renewed, and its holder's work may not begin yet
	Stale    State = "stale"    // a holder is named, and no renewal of it was seen
	Expired  State = "expired"  // the same for as long as the lease lasts: it may be taken
	Released State = "released" // the holder gave it up
	Free     State = "free"     // nobody holds it, and no zonelect program held it last
	Cleared  State = "cleared"  // somebody else took the holder's name out
	Absent   State = "absent"   // there is no Lease
)

// Status is what is known of a lock.
type Status struct {
	State State `json:"state"`
	// Leader is who holds the Lease; nil if nobody does.
	Leader *Leader `json:"leader,omitempty"`
	// Phase is that of a migration; empty if none is on record.
	Phase      record.Phase `json:"phase,omitempty"`
	Candidates []Candidate  `json:"candidates,omitempty"`
	Legacy     *Legacy      `json:"legacy,omitempty"`
	// Evacuated are the zones that people want leadership out of.
	Evacuated []Evacuation `json:"evacuated,omitempty"`
	// Warnings say in words what may become trouble.
	Warnings []string `json:"warnings,omitempty"`
	// Notes say in words what the fields do not.
	Notes []string `json:"notes,omitempty"`
}

// Leader is who holds a Lease.
type Leader struct {
	Identity string `json:"identity"`
	Zone     string `json:"zone,omitempty"`
	Node     string `json:"node,omitempty"`
	Pod      string `json:"pod,omitempty"`
	// Token is the term's fencing token; zero if the holder has noted none.
	Token                uint64            `json:"token,omitempty"`
	Since                *metav1.MicroTime `json:"since,omitempty"`
	Renewed              *metav1.MicroTime `json:"renewed,omitempty"`
	LeaseDurationSeconds int32             `json:"leaseDurationSeconds,omitempty"`
	Transitions          int32             `json:"transitions,omitempty"`
}

// Evacuation is that of a zone.
type Evacuation struct {
	Zone string `json:"zone"`
	// Until is when it ends; nil means when it is taken back. Over says that it
	// has, by the clock of this machine.
	Until *metav1.Time `json:"until,omitempty"`
	Over  bool         `json:"over,omitempty"`
}

// Candidate is one that has announced itself: it was there when it wrote that,
// and only its pod and its node tell whether it still is.
type Candidate struct {
	Identity string `json:"identity"`
	Pod      string `json:"pod,omitempty"`
	Zone     string `json:"zone,omitempty"`
	Node     string `json:"node,omitempty"`
	Version  string `json:"version,omitempty"`
	Mode     string `json:"mode,omitempty"`
	Waiting  string `json:"waiting,omitempty"`
	// Unhealthy is why it says that it should not lead.
	Unhealthy string `json:"unhealthy,omitempty"`
	// PodState is Ready, NotReady, Terminating, Gone, or the pod's phase where
	// that is another than Running; NodeState is Ready, NotReady or Gone. Empty
	// means that they are not known.
	PodState  string `json:"podState,omitempty"`
	NodeState string `json:"nodeState,omitempty"`
}

// Legacy is what stands in the place of the lock that is migrated.
type Legacy struct {
	Object string        `json:"object"` // such as configmap/my-operator
	Kind   ownerref.Kind `json:"kind"`
	Holder string        `json:"holder,omitempty"`
	Armed  bool          `json:"armed,omitempty"`
}

// DeepCopyObject makes a LockStatus a runtime.Object. It is printed only, so
// that what it points to may be shared.
func (s *LockStatus) DeepCopyObject() runtime.Object { c := *s; return &c }

// DeepCopyObject does the same for a list.
func (l *LockStatusList) DeepCopyObject() runtime.Object { c := *l; return &c }

// sighting is what was seen of a Lease by watching it.
type sighting struct {
	watched time.Duration // for how long; zero if it was not
	renewed bool          // it was written meanwhile
}

// findings are all that was read about a lock.
type findings struct {
	namespace, name string
	lease           *coordinationv1.Lease // nil if there is none
	seen            sighting
	presences       []presence.Object
	around          surroundings
	legacy          *Legacy
	stage           record.Stage // that the legacy object carries
	notes           []string
}

// describe says what the findings mean. It is pure; now is the wall clock.
func (f findings) describe(now time.Time) LockStatus {
	s := LockStatus{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiVersion, Kind: "LockStatus"},
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: f.name},
		Status:     Status{State: Absent, Phase: f.phase(), Legacy: f.legacy, Notes: slices.Clone(f.notes)},
	}
	for _, o := range f.presences {
		s.Status.Candidates = append(s.Status.Candidates, Candidate{
			Identity: o.Identity, Pod: o.Pod.Name, Zone: o.Zone, Node: o.Node, Version: o.Version, Mode: o.Mode, Waiting: o.Waiting,
			Unhealthy: o.Unhealthy, PodState: f.around.pods[o.Name], NodeState: f.around.nodes[o.Node],
		})
	}
	slices.SortFunc(s.Status.Candidates, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.Identity, b.Identity))
	})
	w := &warner{status: &s.Status, zones: f.around.zones, now: now}
	if f.lease == nil {
		w.candidates()
		return s
	}
	s.Status.Leader = leaderOf(f.lease)
	w.candidates()
	w.evacuations(record.Read(f.lease).Evacuated)
	state, note := judge(f.lease, f.seen, now)
	s.Status.State = state
	if note != "" {
		s.Status.Notes = append(s.Status.Notes, note)
	}
	w.work()
	if d := record.Read(f.lease).Details; s.Status.Leader != nil && d.Holder == s.Status.Leader.Identity && d.Refused != "" {
		w.note("%s was asked to hand over, and leads on: %s", d.Holder, d.Refused)
	}
	return s
}

// phase is the later of those on the two objects. Where none is on record, a
// leader-for-life lock is one that has not begun to move.
func (f findings) phase() record.Phase {
	stage := f.stage
	if f.lease != nil {
		stage = record.ReadStage(f.lease.Annotations).Later(stage)
	}
	if stage.Phase == "" && f.legacy != nil && f.legacy.Kind == ownerref.Legacy {
		return record.PhaseLegacy
	}
	return stage.Phase
}

// leaderOf returns the holder of a Lease. What the annotations say is believed
// only where they were written for that very holder.
func leaderOf(lease *coordinationv1.Lease) *Leader {
	r := record.Read(lease)
	if r.Holder == "" {
		return nil
	}
	l := &Leader{
		Identity: r.Holder, Since: lease.Spec.AcquireTime, Renewed: lease.Spec.RenewTime,
		LeaseDurationSeconds: int32(r.LeaseDuration / time.Second), Transitions: r.Transitions,
	}
	if d := r.Details; d.Holder == r.Holder {
		l.Zone, l.Node, l.Pod, l.Token = d.Zone, d.Node, d.Pod, d.Token
	}
	return l
}

// judge says whether a Lease is held, and in a note how that is known where it
// is not certain.
func judge(lease *coordinationv1.Lease, seen sighting, now time.Time) (State, string) {
	r := record.Read(lease)
	if r.Holder == "" {
		return judgeEmpty(r.Details.Token, r.Details.Released)
	}
	if seen.renewed {
		return Held, ""
	}
	age, lasts := now.Sub(r.RenewTime), r.LeaseDuration
	watched := ""
	if seen.watched > 0 {
		watched = fmt.Sprintf("no renewal was seen in %s of watching", seen.watched.Round(time.Second))
	}
	switch {
	case seen.watched > 0 && lasts > 0 && seen.watched >= lasts:
		return Expired, watched + ", which is as long as the lease lasts: any candidate may take it, and none did"
	case !doubtful(lease, now):
		return Held, ""
	case r.RenewTime.IsZero():
		return Stale, joined(watched, "the Lease says nothing of when it was renewed")
	case age < 0:
		return Stale, joined(watched, fmt.Sprintf("the last renewal is %s in the future by the clock of this machine: the clocks differ", rounded(-age)))
	default:
		return Stale, joined(watched, fmt.Sprintf("the last renewal is %s old by the clock of this machine, which may differ from the holder's", rounded(age)))
	}
}

func judgeEmpty(token, released uint64) (State, string) {
	switch {
	case token == 0 && released == 0:
		return Free, ""
	case token == released:
		return Released, ""
	default:
		return Cleared, fmt.Sprintf("the holder's name was taken out, but the term of token %d was not given up: its holder may still be at work until its lease expires", token)
	}
}

// doubtful reports whether the wall clock says that the holder does not renew.
func doubtful(lease *coordinationv1.Lease, now time.Time) bool {
	r := record.Read(lease)
	age := now.Sub(r.RenewTime)
	return r.Holder != "" && (age > r.LeaseDuration || age < -r.LeaseDuration)
}

func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

func rounded(d time.Duration) time.Duration { return d.Round(time.Second) }
