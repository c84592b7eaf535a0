// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// ElectionRecord is the kind of a legacy object that holds client-go's election
// record, which moves to a Lease.
const ElectionRecord ownerref.Kind = "record"

// neverSealed says what phase sealed means for an election record.
const neverSealed = "an election record ends by time and cannot be sealed: candidates treat this phase as dual: roll back to dual"

// Legacy is the object in the place of the lock that is migrated.
type Legacy struct {
	Object string        `json:"object"` // such as configmap/my-operator
	Kind   ownerref.Kind `json:"kind"`
	Holder string        `json:"holder,omitempty"`
	Armed  bool          `json:"armed,omitempty"`
	// Lingering says that the object was deleted, and what keeps it.
	Lingering string `json:"lingering,omitempty"`

	// Lock is where the object was looked for and, if no Lease says that, which kind of lock it is.
	Lock record.Legacy `json:"-"`
	// ConfigMap is the object as package ownerref recognizes it; zero for Endpoints, and where a Lease says that
	// the lock is an election record.
	ConfigMap ownerref.Record `json:"-"`
	// Ours says that a zonelect program wrote the holder of an election record.
	Ours bool `json:"-"`
	// Why is what is odd about the object.
	Why string `json:"-"`
}

// objectKinds are the kinds of objects as kubectl takes them.
var objectKinds = map[string]string{record.ConfigMaps: "configmap", record.Endpoints: "endpoints"}

// ObjectOf names the object of a legacy lock as kubectl does.
func ObjectOf(lock record.Legacy) string { return objectKinds[lock.Resource] + "/" + lock.Name }

// RemoveFinalizers is what to do about a ConfigMap that lingers.
const RemoveFinalizers = "have the finalizers removed, by whoever put them there or by hand"

// LegacyLock says which lock is moved, and whether the Lease says that one is: if not, it may be
// one of the lock's name.
func (e Election) LegacyLock() (lock record.Legacy, moves bool) {
	on := e.Snapshot().Version
	lock, moves = record.LegacyOf(on), record.StageOf(on).Phase != ""
	if lock != (record.Legacy{}) {
		return lock, true
	}
	return record.Legacy{Resource: record.ConfigMaps, Name: e.Name}, moves
}

// recognized identifies a ConfigMap in the place of a leader-for-life lock.
func recognized(cm *corev1.ConfigMap) *Legacy {
	r := ownerref.Recognize(cm)
	o := &Legacy{Kind: r.Kind, Armed: r.Armed, Lingering: r.Lingering(), ConfigMap: r, Why: r.Why}
	if r.Kind == ownerref.Legacy {
		o.Holder = "pod/" + r.Owner.Name
	}
	return o
}

// elected identifies an object in the place of an election record. An object without a
// record counts as none.
func elected(annotations map[string]string) *Legacy {
	raw, found := annotations[resourcelock.LeaderElectionRecordAnnotationKey]
	if !found {
		return &Legacy{Kind: ownerref.Absent}
	}
	said, err := record.ParseElected(raw)
	if err != nil {
		return &Legacy{Kind: ownerref.Foreign, Why: "its election record cannot be read: " + err.Error()}
	}
	holder := record.Identity(said.HolderIdentity)
	ours := holder != "" && annotations[record.AnnotationHolder] == holder
	return &Legacy{Kind: ElectionRecord, Holder: holder, Ours: ours}
}
