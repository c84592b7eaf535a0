// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ownerref

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/record"
)

// The kinds of an [Owner].
const (
	Pod   = "Pod"
	Lease = "Lease"
)

// Owner is an object that owns the ConfigMap: a legacy leader's pod, or a
// candidate's presence, which is a Lease. Two owners are the same if their
// UIDs are; names are for people and for finding them.
type Owner struct {
	Kind string // Pod or Lease
	Name string
	UID  types.UID
}

// String returns "name/uid".
func (o Owner) String() string { return o.Name + "/" + string(o.UID) }

// Kind is what a ConfigMap turned out to be.
type Kind string

// The kinds of ConfigMap that stand in a legacy lock's place.
const (
	Absent  Kind = "absent"  // there is none
	Legacy  Kind = "legacy"  // a leader-for-life lock
	Shield  Kind = "shield"  // ours; its owners are presences
	Sealed  Kind = "sealed"  // ours, for good: it has no owner
	Foreign Kind = "foreign" // anything else: it is left alone
)

// Record is what stands in the legacy lock's place, at one version.
type Record struct {
	Kind   Kind
	Owner  Owner       // of a Legacy one: the pod that owns it
	Shield ShieldState // of a Shield or Sealed one
	// UID is that of the ConfigMap; empty for an Absent one.
	UID types.UID
	// Number orders the versions of the ConfigMap, also across deletion and
	// creation. Of an Absent one it is known only after a watch saw the
	// deletion, else zero.
	Number uint64
	// Why says of a Foreign one what it is and what to do.
	Why string

	object *corev1.ConfigMap
}

// ShieldState is what a shield says. It is a value: its methods return changed
// copies.
type ShieldState struct {
	// Presences own the shield. A sealed one has none.
	Presences []Owner
	// Armed says that no legacy pod was left after the shield was up: only
	// under an armed shield may a candidate lead.
	Armed bool
	Stage record.Stage
	// Seen are legacy owners that candidates met, at most MaxSeen, oldest
	// first.
	Seen []Owner
}

// MaxSeen bounds ShieldState.Seen.
const MaxSeen = 100

// Recognize says what a ConfigMap is; nil is Absent.
func Recognize(cm *corev1.ConfigMap) Record { return Record{} }

// With returns s with p among its presences.
func (s ShieldState) With(p Owner) ShieldState { return s }

// Without returns s without p among its presences.
func (s ShieldState) Without(p Owner) ShieldState { return s }

// Has reports whether p is among the presences.
func (s ShieldState) Has(p Owner) bool { return false }

// Remember returns s with the legacy owner pod among those seen.
func (s ShieldState) Remember(pod Owner) ShieldState { return s }

// Forget returns s without pod among those seen. A pod that is gone may be
// forgotten, for its UID never comes back.
func (s ShieldState) Forget(pod Owner) ShieldState { return s }
