// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"

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
	// Stage is the one that counts: the later of the Lease's and the ConfigMap's.
	record.Stage

	// Lease is its holder, without an identity if nobody holds it; nil if there is no Lease.
	Lease *inspect.Leader `json:"lease,omitempty"`
	// Legacy is the object in the legacy lock's place. Its Kind is empty if it could not be read.
	Legacy     inspect.Legacy `json:"legacy"`
	Candidates []Candidate    `json:"candidates"`
	// LegacyPods are the pods without a presence at the lock that may still lead. They are
	// not known if Counted is false.
	LegacyPods []LegacyPod `json:"legacyPods"`
	Counted    bool        `json:"counted"`

	// Problems keep the lock from working, or this report from being complete. They say what to do.
	Problems []string `json:"problems,omitempty"`

	lease     *coordinationv1.Lease // as it was read; nil if there is none
	said      locks.Record          // what it says
	onLease   record.Stage
	moves     bool                  // the Lease says that a lock is moved
	expired   bool                  // by the clock of this machine, which may be wrong
	holders   []record.LegacyHolder // that were seen to hold the legacy lock
	selector  string                // of the operator's pods; empty if it is not known
	unmatched []string              // the holders that it is not known to match
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
	problem := func(format string, args ...any) { r.Problems = append(r.Problems, fmt.Sprintf(format, args...)) }
	switch is := r.Legacy.ConfigMap; {
	case r.Legacy.Lock.Elected:
		if r.Phase == Clean && r.electorLeads() {
			problem("%s, though the phase is clean: it and a candidate may both lead: end it; "+
				"if more may start, roll back to phase dual then", r.recordText())
		}
	case is.Bare && r.Phase == Legacy:
		problem("the ConfigMap %s is empty and has no owner: legacy pods wait at it for good: remove it", r.Legacy.Lock.Name)
	case is.Kind == ownerref.Legacy && (r.Phase == Sealed || r.Phase == Clean):
		problem("legacy pod %s holds the ConfigMap, though the phase is %s: it and a candidate may both lead: remove that pod; "+
			"if more may start, roll back to phase dual once the ConfigMap has gone with it", is.Owner, r.Phase)
	case is.Kind == ownerref.Absent && r.Phase == Sealed:
		problem("the sealed ConfigMap is gone: a legacy pod that starts now leads beside the candidates, until one of these puts it up again")
	}
}

// vacant reports whether nobody holds the Lease.
func (r *Report) vacant() bool { return r.said.Holder == "" || r.expired }

// electorLeads reports whether a legacy elector holds the election record that moves to the Lease.
func (r *Report) electorLeads() bool {
	return r.Legacy.Lock.Elected && r.Legacy.Holder != "" && !r.Legacy.Ours
}

// recordText names the election record and its holder.
func (r *Report) recordText() string {
	return fmt.Sprintf("%s: held by %s", inspect.ObjectOf(r.Legacy.Lock), cmp.Or(r.Legacy.Holder, "nobody"))
}

// running returns the candidates that take part and whose pods exist.
func (r *Report) running() []Candidate {
	return slices.DeleteFunc(slices.Clone(r.Candidates), func(c Candidate) bool { return !c.Exists || !c.TakesPart() })
}

// alone reports whether the lock is a Lease that nobody moves: no phase is on record, nothing stands
// in a legacy lock's place, and no candidate takes part in a migration.
func (r *Report) alone() bool {
	return r.lease != nil && !r.moves && r.Legacy.Kind == ownerref.Absent && len(r.running()) == 0
}

const nothingToMigrate = "the lock is a Lease alone, and there is no legacy lock of its name: " +
	"nothing is to be migrated, unless the legacy lock has another name"

// holder returns the candidate that holds the Lease and takes part; nil if none
// does.
func (r *Report) holder() *Candidate {
	for _, c := range r.Candidates {
		if c.Identity != "" && c.Identity == r.said.Holder && c.TakesPart() {
			return &c
		}
	}
	return nil
}
