// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package audit judges the elections of a cluster, whoever runs them: what each costs when its leader
// or a zone is lost, and what is wrong with it.
//
// It is pure. A [Watch] is told which Leases were seen when, [Records] and [ForLife] read the locks on
// other objects, and a [Cluster] has all of it with the pods and the zones. [Cluster.Judge] judges it.
// What an object does not show is a [Span] that says so, and never a finding.
package audit

import (
	"cmp"
	"slices"
	"time"

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/internal/doctor"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// Kind is what keeps the record of an election.
type Kind string

// The kinds.
const (
	OnLease     Kind = "Lease"
	OnConfigMap Kind = "ConfigMap" // client-go's record on an annotation
	OnEndpoints Kind = "Endpoints" // the same
	IsForLife   Kind = "leader-for-life"
)

// State is an election as it was seen at some moment.
type State struct {
	At       time.Time     // when it was seen, by the clock of this machine
	Blind    bool          // what came between the state before and this one was not seen
	Holder   string        // empty if nobody holds it
	Lease    time.Duration // zero if that is not on record
	Renewed  time.Time     // by the holder's clock
	Changes  int32         // of the holder, as far as the record knows
	Zonelect bool          // the holder is a program of zonelect
	Pod      string        // of such a holder: its name and UID, as "name/uid"
}

// Election is what was seen of one election.
type Election struct {
	Kind            Kind
	Namespace, Name string
	Writer          string    // the field manager of the last write; empty if that is not known
	Created         time.Time // of the object
	Phase           string    // of a migration
	Foreign         bool      // a record on an annotation is not as client-go writes it
	Owner           ownerref.Owner
	States          []State // the oldest first, at least one
}

// Last is the state that was seen last.
func (e Election) Last() State { return e.States[len(e.States)-1] }

// Cluster is what was read.
type Cluster struct {
	Namespace string        // empty means all
	Watched   time.Duration // how long the Leases were watched
	Now       time.Time
	Elections []Election
	Pods      doctor.Fact[[]Pod]
	Zones     doctor.Fact[map[string]string] // of nodes, by their names
	Unread    []Unread                       // what else could not be read
}

// Unread is something that could not be read.
type Unread struct {
	What, Why string
}

// Report is the verdict on one election.
type Report struct {
	Kind      Kind   `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Holder    string `json:"holder,omitempty"`
	Writer    string `json:"writer,omitempty"`
	// Elector is by whose rules the costs are: zonelect, client-go or other.
	Elector  Elector `json:"elector"`
	Phase    string  `json:"phase,omitempty"`
	Pod      string  `json:"pod,omitempty"`      // of the holder, as namespace/name
	Workload string  `json:"workload,omitempty"` // of that pod
	// Replicas is how many pods of the workload run, by zone. It is missing if that is not known.
	Replicas map[string]int `json:"replicas,omitempty"`

	Renewals int   `json:"renewals"` // how many were seen
	Period   *Span `json:"period,omitempty"`
	Lease    *Span `json:"leaseDuration,omitempty"`
	Deadline *Span `json:"renewDeadline,omitempty"`
	// Crash and LostZone are how long nobody leads at worst.
	Crash    Span `json:"crash"`
	LostZone Span `json:"lostZone"`

	Findings []doctor.Finding `json:"findings,omitempty"`
}

// Elector is a family of electors.
type Elector string

// The families. Whoever writes as client-go does counts as that.
const (
	Zonelect Elector = "zonelect"
	ClientGo Elector = "client-go"
	Other    Elector = "other"
)

// Link is where a check is explained.
func Link(check string) string { return doctor.Page("audit.md#" + check) }

// Judge judges all elections, in the order of their names. The findings are about the cluster.
func (c Cluster) Judge() ([]Report, []doctor.Finding) {
	found := c.index()
	reports := make([]Report, 0, len(c.Elections))
	for _, e := range c.Elections {
		reports = append(reports, judge(e, found))
	}
	slices.SortStableFunc(reports, func(a, b Report) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	return reports, linked(c.general())
}

// general is what is worth knowing of the whole cluster: what could not be read, each thing once.
func (c Cluster) general() []doctor.Finding {
	var all []doctor.Finding
	unread := slices.Clone(c.Unread)
	if c.Pods.Unknown != "" {
		unread = append(unread, Unread{"which pods there are, so where holders and replicas run, and what their arguments say", c.Pods.Unknown})
	} else if c.Zones.Unknown != "" {
		unread = append(unread, Unread{"in which zones the replicas are", c.Zones.Unknown})
	}
	for _, u := range unread {
		all = append(all, say("rights", doctor.Note, "%s is not known: %s", u.What, u.Why))
	}
	if zones := valuesOf(c.Zones.Value); len(zones) == 1 {
		all = append(all, say("one-zone", doctor.Note, "all nodes that have a zone are in %s: whatever elects, its loss is that of the cluster", zones[0]))
	}
	return all
}
