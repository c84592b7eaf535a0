// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"slices"
	"time"

	"github.com/zonelect/zonelect/internal/inspect"
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

	lock   inspect.Election // its candidates, and its Lease
	read   locks.Snapshot   // what they say
	legacy record.Legacy

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
	Ours            bool      `json:"ours"`
	Renewed         time.Time `json:"renewed,omitzero"`
	DurationSeconds int64     `json:"durationSeconds,omitempty"`
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
// lease takes no part in the migration: it is not counted as following the phase. The command
// status says more of each.
type Candidate struct {
	Identity string `json:"identity"`
	Pod      string `json:"pod,omitempty"`
	UID      string `json:"uid"` // of its pod
	Zone     string `json:"zone,omitempty"`
	Version  string `json:"version,omitempty"`
	Mode     string `json:"mode,omitempty"`    // auto, dual or lease
	Waiting  string `json:"waiting,omitempty"` // for what, before it may lead
	// Exists says whether its pod exists. Ready is the pod's condition of that name.
	Exists bool `json:"exists"`
	Ready  bool `json:"ready"`
	// Holds says whether it holds the Lease, and Shields whether it is among the shield's
	// owners.
	Holds   bool `json:"holds"`
	Shields bool `json:"shields"`
}

// LegacyPod is a pod that may still lead by the ConfigMap.
type LegacyPod struct {
	Pod   string `json:"pod"`
	UID   string `json:"uid"`
	Node  string `json:"node,omitempty"`
	State string `json:"state"`
	Why   string `json:"why"`
}

// running returns the candidates that take part and whose pods exist.
func (r *Report) running() []inspect.Candidate {
	return slices.DeleteFunc(slices.Clone(r.lock.Candidates), func(c inspect.Candidate) bool { return !c.Exists || !c.TakesPart() })
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

// leaseAlone reports whether the phase lets candidates in mode lease lead (M12).
func (r *Report) leaseAlone() bool {
	return r.Phase == "" || r.Phase == Clean || r.Phase == Sealed && !r.legacy.Elected
}

// holder returns the candidate that holds the Lease and takes part; nil if none
// does.
func (r *Report) holder() *inspect.Candidate {
	if i := slices.IndexFunc(r.lock.Candidates, func(c inspect.Candidate) bool { return r.holds(c) && c.TakesPart() }); i >= 0 {
		return &r.lock.Candidates[i]
	}
	return nil
}

// holds reports whether a candidate holds the Lease.
func (r *Report) holds(c inspect.Candidate) bool {
	return c.Identity != "" && c.Identity == r.Lease.Holder
}

// shields reports whether a candidate is among the shield's owners.
func (r *Report) shields(c inspect.Candidate) bool {
	return slices.Contains(r.ConfigMap.Presences, c.Presence)
}

// candidates returns the candidates as a report says them.
func (r *Report) candidates() []Candidate {
	all := []Candidate{}
	for _, c := range r.lock.Candidates {
		all = append(all, Candidate{c.Identity, c.Pod, c.UID, c.Zone, c.Version, c.Mode, c.Waiting, c.Exists, c.Ready, r.holds(c), r.shields(c)})
	}
	return all
}

// stage returns the phase with its place in the order of changes.
func (r *Report) stage() record.Stage { return stageOf(r.Phase, r.Step) }

func stageOf(p Phase, step uint64) record.Stage {
	return record.Stage{Phase: record.Phase(p), Step: step}
}
