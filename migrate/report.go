// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"slices"
	"time"

	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// Report says where a migration is. It comes from several reads, so its parts may be some
// milliseconds apart; the Lease is the oldest.
type Report struct {
	Namespace string `json:"namespace"`
	Lock      string `json:"lock"`
	// Phase is the phase that counts: the later of the Lease's and the ConfigMap's.
	Phase Phase  `json:"phase,omitempty"`
	Step  uint64 `json:"step,omitempty"`

	// Legacy names the legacy lock: configmap/NAME for leader-for-life,
	// annotation/configmaps/NAME or annotation/endpoints/NAME for an election record. Empty
	// if its kind is not known.
	Legacy string `json:"legacy,omitempty"`

	Lease      LeaseReport     `json:"lease"`
	ConfigMap  ConfigMapReport `json:"configMap"`
	Candidates []Candidate     `json:"candidates"`
	// LegacyPods are the pods without a presence at the lock that may still lead. They are
	// not known if Counted is false.
	LegacyPods []LegacyPod `json:"legacyPods"`
	Counted    bool        `json:"counted"`

	// Problems keep the lock from working, or this report from being complete.
	// Warnings may become problems. Both say what to do.
	Problems []string `json:"problems,omitempty"`
	Warnings []string `json:"warnings,omitempty"`

	lock   inspect.Election // its Lease, and that of the heartbeat that keeps it
	read   locks.Snapshot   // what they say
	legacy record.Legacy
}

// LeaseReport is what the Lease says.
type LeaseReport struct {
	Exists bool   `json:"exists"`
	Phase  Phase  `json:"phase,omitempty"`
	Step   uint64 `json:"step,omitempty"`
	// Holder is empty if nobody holds the Lease. Zone, Node, Pod ("name/uid") and Token are
	// the holder's, if it has noted them. Otherwise Zone is the label of its node, if that is known.
	Holder string `json:"holder,omitempty"`
	Zone   string `json:"zone,omitempty"`
	Node   string `json:"node,omitempty"`
	Pod    string `json:"pod,omitempty"`
	Token  uint64 `json:"token,omitempty"`
	// Ours says that a zonelect program wrote the holder.
	Ours            bool      `json:"ours"`
	Since           time.Time `json:"since,omitzero"`
	Renewed         time.Time `json:"renewed,omitzero"`
	DurationSeconds int64     `json:"durationSeconds,omitempty"`
	// Heartbeat is the Lease by which the holder's process renews all locks that it holds;
	// empty if each lock is renewed by itself.
	Heartbeat   string `json:"heartbeat,omitempty"`
	Transitions int32  `json:"transitions"`
	// Expired says that its holder has not renewed it in time, by the clock of this machine,
	// which may be wrong. Candidates wait in full, by their own clocks.
	Expired bool `json:"expired"`
}

// ElectionRecord is the kind of a legacy object that holds client-go's election
// record, which moves to a Lease.
const ElectionRecord = inspect.ElectionRecord

// ConfigMapReport is the object in the legacy lock's place: a ConfigMap, or an Endpoints
// object.
type ConfigMapReport struct {
	Name string `json:"name"`
	// Kind is empty if the object could not be read.
	Kind  ownerref.Kind `json:"kind,omitempty"`
	Phase Phase         `json:"phase,omitempty"`
	Step  uint64        `json:"step,omitempty"`
	// Owner is the pod that owns a leader-for-life lock, as "name/uid".
	Owner string `json:"owner,omitempty"`
	// Armed, Presences (names of Leases) and Presumed (pods, as "name/uid") are a shield's.
	// Presumed are legacy pods that count as gone without proof.
	Armed     bool     `json:"armed"`
	Presences []string `json:"presences,omitempty"`
	Presumed  []string `json:"presumed,omitempty"`
	// Finalizers keep a ConfigMap in place that was deleted already: it goes when they are gone.
	Finalizers []string `json:"finalizers,omitempty"`
	// Why says what a foreign object is, and what to do about it.
	Why string `json:"why,omitempty"`
	// Elected are the records that client-go's electors used before Leases, on the
	// ConfigMap and on the Endpoints of that name.
	Elected []Elected `json:"elected,omitempty"`

	shield ownerref.Record
}

// Elected is an election record of client-go outside of a Lease.
type Elected = inspect.Elected

// Candidate is a program with a presence object at the lock: its identity, where it runs,
// what it waits for, whether its pod exists, and whether it holds the Lease. A candidate in
// mode lease takes no part in the migration: it is not counted as following the phase.
type Candidate = inspect.Candidate

// LegacyPod is a pod that may still lead by the ConfigMap.
type LegacyPod struct {
	Pod   string `json:"pod"`
	UID   string `json:"uid"`
	Node  string `json:"node,omitempty"`
	State string `json:"state"`
	Why   string `json:"why"`
}

// existing returns the candidates whose pods exist and that meet a condition.
func (r *Report) existing(meets func(Candidate) bool) []Candidate {
	return slices.DeleteFunc(slices.Clone(r.Candidates), func(c Candidate) bool { return !c.Exists || !meets(c) })
}

// running returns the candidates that take part and whose pods exist.
func (r *Report) running() []Candidate { return r.existing(Candidate.TakesPart) }

// mayLead returns the candidates that the phase allows to lead, and whose pods exist.
func (r *Report) mayLead() []Candidate {
	return r.existing(func(c Candidate) bool {
		return c.TakesPart() || r.leaseAlone() && c.Mode == presence.Alone
	})
}

// alone reports whether the lock is a Lease that nobody moves: no phase is on record, nothing stands
// in a legacy lock's place, and no candidate takes part in a migration.
func (r *Report) alone() bool {
	return r.Lease.Exists && r.Lease.Phase == "" && r.legacy == (record.Legacy{}) && r.ConfigMap.Kind == ownerref.Absent &&
		len(r.ConfigMap.Elected) == 0 && len(r.running()) == 0
}

const nothingToMigrate = "the lock is a Lease alone, and there is no legacy lock of its name: nothing is to be migrated, unless the legacy lock has another name"

// begin says how a migration of the lock begins.
func (r *Report) begin() string {
	if r.alone() {
		return nothingToMigrate
	}
	return r.course().stepBy("", "").Does
}

// leaseAlone reports whether the phase lets candidates in mode lease lead (M12).
func (r *Report) leaseAlone() bool {
	return r.Phase == "" || r.Phase == Clean || r.Phase == Sealed && !r.legacy.Elected
}

// holder returns the candidate that holds the Lease and takes part; nil if none
// does.
func (r *Report) holder() *Candidate {
	holds := func(c Candidate) bool { return c.Holds && c.TakesPart() }
	if i := slices.IndexFunc(r.Candidates, holds); i >= 0 {
		return &r.Candidates[i]
	}
	return nil
}

func (r *Report) stage() record.Stage { return record.Stage{Phase: r.Phase, Step: r.Step} }
