// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/record"
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

	lease     *coordinationv1.Lease // as it was read; nil if there is none
	legacy    record.Legacy
	holders   []record.LegacyHolder // that were seen to hold the legacy lock
	selector  string                // of the operator's pods; empty if it is not known
	unmatched []string              // the holders that it is not known to match
}

// LeaseReport is what the Lease says.
type LeaseReport struct {
	Exists bool   `json:"exists"`
	Phase  Phase  `json:"phase,omitempty"`
	Step   uint64 `json:"step,omitempty"`
	// Holder is empty if nobody holds the Lease. Zone is the holder's, if it has noted it.
	Holder string `json:"holder,omitempty"`
	Zone   string `json:"zone,omitempty"`
	// Ours says that a zonelect program wrote the holder.
	Ours    bool      `json:"ours"`
	Renewed time.Time `json:"renewed,omitzero"`
	// Expired says that its holder has not renewed it in time, by the clock of this machine,
	// which may be wrong. Candidates wait in full, by their own clocks.
	Expired bool `json:"expired"`
}

// ConfigMapReport is the object in the legacy lock's place: a ConfigMap, or an Endpoints
// object.
type ConfigMapReport struct {
	Name string `json:"name"`
	// Kind is "record" if the object holds an election record that moves to the Lease. It is
	// empty if the object could not be read.
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
	// Why says what a foreign object is, and what to do about it.
	Why string `json:"why,omitempty"`
	// Elected are the records that client-go's electors used before Leases, on the
	// ConfigMap and on the Endpoints of that name.
	Elected []ElectionRecord `json:"elected,omitempty"`

	shield ownerref.Record
}

// ElectionRecord is an election record of client-go outside of a Lease.
type ElectionRecord struct {
	Resource string `json:"resource"` // configmaps or endpoints
	Holder   string `json:"holder,omitempty"`
	// Ours says that a zonelect program wrote the holder.
	Ours  bool   `json:"ours"`
	Error string `json:"error,omitempty"` // what in it cannot be read
}

// Candidate is a program with a presence object at the lock. The presence says what was true
// when it was written; only the pod tells whether the candidate still runs. A candidate in mode
// lease takes no part in the migration: it is not counted as following the phase.
type Candidate = inspect.Candidate

// LegacyPod is a pod that may still lead by the ConfigMap.
type LegacyPod struct {
	Pod   string `json:"pod"`
	UID   string `json:"uid"`
	Node  string `json:"node,omitempty"`
	State string `json:"state"`
	Why   string `json:"why"`
}

// findProblems adds what no check of a step says. It does no I/O.
func (r *Report) findProblems() {
	cm := r.ConfigMap
	problem := func(format string, args ...any) { r.Problems = append(r.Problems, fmt.Sprintf(format, args...)) }
	switch legacy := cm.Kind == ownerref.Legacy && (r.Phase == Sealed || r.Phase == Clean); {
	case r.legacy.Elected:
		if r.Phase == Clean && r.electorLeads() {
			problem("%s, though the phase is clean: it and a candidate may both lead: end it; if more may start, roll back to phase dual then", r.recordText())
		}
	case cm.shield.Bare && r.Phase == Legacy:
		problem("the ConfigMap %s is empty and has no owner: legacy pods wait at it for good: remove it", cm.Name)
	case cm.Kind == ownerref.Foreign && !cm.shield.Bare:
		problem("the ConfigMap %s is not a leader-for-life lock: %s", cm.Name, cm.Why)
	case legacy:
		problem("legacy pod %s holds the ConfigMap, though the phase is %s: it and a candidate may both lead: remove that pod; if more may start, roll back to phase dual once the ConfigMap has gone with it", cm.Owner, r.Phase)
	case cm.Kind == ownerref.Absent && r.Phase == Sealed:
		problem("the sealed ConfigMap is gone: a legacy pod that starts now leads beside the candidates, until one of these puts it up again")
	}
	for _, e := range cm.Elected {
		if e.Error != "" {
			problem("%s %s: %s", e.Resource, cm.Name, e.Error)
		} else if !r.legacy.Elected && e.Resource != record.ConfigMaps {
			r.Warnings = append(r.Warnings, fmt.Sprintf("%s %s holds an election record of client-go, of %q: electors that use it know nothing of this migration", e.Resource, cm.Name, e.Holder))
		}
	}
}

// running returns the candidates that take part and whose pods exist.
func (r *Report) running() []Candidate {
	return slices.DeleteFunc(slices.Clone(r.Candidates), func(c Candidate) bool { return !c.Exists || !c.TakesPart() })
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
	return r.course().step("", "", "").Does
}

// holder returns the candidate that holds the Lease and takes part; nil if none
// does.
func (r *Report) holder() *Candidate {
	for _, c := range r.Candidates {
		if c.Identity != "" && c.Identity == r.Lease.Holder && c.TakesPart() {
			return &c
		}
	}
	return nil
}

// stage returns the phase with its place in the order of changes.
func (r *Report) stage() record.Stage { return stageOf(r.Phase, r.Step) }

func stageOf(p Phase, step uint64) record.Stage {
	return record.Stage{Phase: record.Phase(p), Step: step}
}
