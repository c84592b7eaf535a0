// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ownerref

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/record"
)

// Owner is an object that owns the ConfigMap: a legacy leader's pod, or a candidate's
// presence, which is a Lease. Two owners are the same if their UIDs are; names are for
// people and for finding the objects.
type Owner struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

// String returns "name/uid".
func (o Owner) String() string { return o.Name + "/" + string(o.UID) }

// Kind says what a ConfigMap is.
type Kind string

// The kinds of ConfigMap in a legacy lock's place.
const (
	Absent  Kind = "absent"  // nothing
	Legacy  Kind = "legacy"  // a leader-for-life lock
	Shield  Kind = "shield"  // zonelect's; its owners are presences
	Sealed  Kind = "sealed"  // zonelect's, permanently: it has no owner
	Foreign Kind = "foreign" // anything else: zonelect leaves it alone
)

// Record is the ConfigMap in the legacy lock's place, at one version.
type Record struct {
	Kind Kind
	// Owner is the pod that owns a Legacy lock.
	Owner Owner

	// Presences own a Shield: the presence objects of candidates. One that is Sealed has none.
	Presences []Owner
	// Armed says that no legacy pod was left after this very shield was up. No candidate may
	// lead under an unarmed one, Sealed or not.
	Armed bool
	// Stage is that of the migration, as the shield says it.
	record.Stage
	// Seen lists the legacy owners that candidates have seen, at most 100, the oldest first.
	Seen []Owner
	// Presumed lists the legacy pods that still existed when the shield was armed, because
	// their nodes had been silent for the grace (M11), at most 100. If the node of one is heard
	// from again, the leader must stop.
	Presumed []Owner

	// UID is that of the ConfigMap; empty if it is Absent.
	UID types.UID
	// Number orders the versions of the ConfigMap, even across deletion and creation. If
	// the ConfigMap is Absent, Number is known only if a watch saw the deletion, and
	// otherwise zero.
	Number uint64
	// Why says what a Foreign ConfigMap is and what to do about it.
	Why string
	// Bare says that a Foreign ConfigMap is empty: it has no owner, no data and no lock's
	// annotation. No leader-for-life program takes it and the garbage collector does not
	// delete it, so it is still a shield if it was one under this UID. Backup tools restore
	// a leader-for-life lock like that.
	Bare bool
	// Condemned says that the ConfigMap was deleted already. It is still there, so that legacy
	// programs wait at it, and goes when its finalizers are gone, whoever owns it then: as a
	// shield it is not to be relied on.
	Condemned bool

	// Object is the ConfigMap as it was read, which must not be changed; nil if it was not.
	Object *corev1.ConfigMap
}

// Recognize says what a ConfigMap is; nil is Absent. It is pure. The Record keeps cm,
// which must not be changed afterward.
//
// A Legacy lock is a ConfigMap without data whose only owner is a Pod, whatever its
// annotations say: that is how leader-for-life reads it. A Shield is owned by Leases
// alone. Somebody may have removed its owners or its annotations, but not both (see
// Record.Bare), and without its annotations it must not hold data. A ConfigMap with
// client-go's election record is always Foreign: another kind of elector leads by it.
func Recognize(cm *corev1.ConfigMap) Record {
	if cm == nil {
		return Record{Kind: Absent}
	}
	r := Record{UID: cm.UID, Number: record.Number(cm.ResourceVersion), Condemned: cm.DeletionTimestamp != nil, Object: cm}
	if r.Why = foreign(cm); r.Why != "" {
		r.Kind, r.Bare = Foreign, r.Why == bare
		return r
	}
	owners := cm.OwnerReferences
	if len(owners) == 1 && isPod(owners[0]) {
		r.Kind, r.Owner = Legacy, ownerOf(owners[0])
		return r
	}
	r.Kind = Shield
	if r.readShield(); r.Seals() && len(owners) == 0 {
		r.Kind = Sealed
	}
	return r
}

// readShield reads what a shield says. It treats invalid values as absent.
func (r *Record) readShield() {
	annotations := r.Object.Annotations
	for _, ref := range r.Object.OwnerReferences {
		r.Presences = append(r.Presences, ownerOf(ref))
	}
	r.Armed = r.UID != "" && annotations[record.AnnotationShieldArmed] == string(r.UID)
	r.Seen = readPods(annotations[record.AnnotationLegacyPods])
	r.Presumed = readPods(annotations[record.AnnotationPresumedGone])
	r.Stage = record.ReadStage(annotations)
}

func readPods(list string) (all []Owner) {
	var pods []json.RawMessage
	_ = json.Unmarshal([]byte(list), &pods) // garbage lists nothing
	for _, raw := range pods {
		var pod Owner
		if json.Unmarshal(raw, &pod) == nil && pod.Name != "" && pod.UID != "" {
			all = append(all, pod)
		}
	}
	return all[max(0, len(all)-record.MaxLegacyPods):]
}

// marked reports whether any annotation says that a ConfigMap is zonelect's.
func marked(cm *corev1.ConfigMap) bool {
	for _, key := range []string{record.AnnotationShieldArmed, record.AnnotationLegacyPods, record.AnnotationPresumedGone} {
		if _, found := cm.Annotations[key]; found {
			return true
		}
	}
	return record.ReadStage(cm.Annotations) != record.Stage{}
}

// Has reports whether a presence is among those that own the shield.
func (r Record) Has(presence Owner) bool {
	return slices.ContainsFunc(r.Presences, func(o Owner) bool { return o.UID == presence.UID })
}

// Lingering says that a Condemned ConfigMap was deleted, and what keeps it; empty for others.
func (r Record) Lingering() string {
	if !r.Condemned {
		return ""
	}
	return "the ConfigMap was deleted, and stays until its finalizers are gone: " + strings.Join(r.Object.Finalizers, ", ")
}

// Stays reports whether the ConfigMap stays, Condemned, when somebody deletes it at this
// version: it has finalizers.
func (r Record) Stays() bool { return r.Object != nil && len(r.Object.Finalizers) > 0 }

const bare = "it has no owner, and nothing says that it is a shield, as after a restore from a backup: " +
	"a candidate that holds the Lease puts a shield in its place once no legacy pod is left"

// foreign says why a ConfigMap is neither a leader-for-life lock nor zonelect's, or
// returns "".
func foreign(cm *corev1.ConfigMap) string {
	owners := cm.OwnerReferences
	data := len(cm.Data)+len(cm.BinaryData) > 0
	_, elected := cm.Annotations[resourcelock.LeaderElectionRecordAnnotationKey]
	byPod := len(owners) == 1 && isPod(owners[0])
	switch {
	case elected:
		return "it holds an election record of client-go: if that is the operator's old lock, " +
			"set --leader-elect-resource-lock=configmapsleases; if not, give the lock another name"
	case !byPod && slices.ContainsFunc(owners, isNoPresence):
		return fmt.Sprintf("its owners are %s, where a leader-for-life lock has one Pod and a shield has Leases: "+
			"remove those that do not belong there, or the ConfigMap if nothing uses it", list(owners))
	case data && (byPod || !marked(cm)):
		return "it holds data, which no lock does: give the lock another name, or remove the ConfigMap if nothing uses it"
	case len(owners) == 0 && !marked(cm):
		return bare
	}
	return ""
}

func isPod(ref metav1.OwnerReference) bool {
	return ref.Kind == apierror.Pods.Kind && ref.APIVersion == corev1.SchemeGroupVersion.String() && ref.UID != ""
}

func isNoPresence(ref metav1.OwnerReference) bool {
	group, _, _ := strings.Cut(ref.APIVersion, "/")
	return ref.Kind != apierror.Leases.Kind || group != coordinationv1.GroupName || ref.UID == ""
}

func ownerOf(ref metav1.OwnerReference) Owner {
	return Owner{Name: ref.Name, UID: ref.UID}
}

// list names some owners: anybody can write any number of them.
func list(refs []metav1.OwnerReference) string {
	var texts []string
	for _, ref := range refs[:min(len(refs), 5)] {
		texts = append(texts, fmt.Sprintf("%.253s %.253s (%.253s)", ref.Kind, ref.Name, ref.APIVersion))
	}
	return strings.Join(texts, ", ")
}
