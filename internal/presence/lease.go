// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package presence

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/zonelect/zonelect/internal/record"
)

// Label marks a presence. Its value is the lock's name or, if that is too long for a label,
// its beginning and a hash.
const Label = "zonelect.dev/lock"

// The annotations of a presence. Zone and node have those of a lock's record instead. The
// identity is the Lease's holder, so that people see it where they list Leases.
const (
	annotationMode    = "zonelect.dev/mode"
	annotationWaiting = "zonelect.dev/waiting-for"
	annotationHealth  = "zonelect.dev/health"
	annotationStop    = "zonelect.dev/stop-timeout"
)

// annotations ties the texts of o to their keys.
func (o *Object) annotations() map[string]*string {
	return map[string]*string{
		record.AnnotationZone: &o.Zone,
		record.AnnotationNode: &o.Node,
		annotationMode:        &o.Mode,
		annotationWaiting:     &o.Waiting,
		annotationHealth:      &o.Unhealthy,
		annotationStop:        &o.Stop,
	}
}

// written returns a copy of lease that carries o.
func (o Object) written(lease *coordinationv1.Lease) *coordinationv1.Lease {
	lease = lease.DeepCopy()
	metav1.SetMetaDataLabel(&lease.ObjectMeta, Label, labelOf(o.Lock))
	for key, text := range o.annotations() {
		if *text == "" {
			delete(lease.Annotations, key)
			continue
		}
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, key, strings.ToValidUTF8((*text)[:min(len(*text), record.MaxText)], ""))
	}
	if o.Pod == (Pod{}) {
		renewed, seconds := metav1.NewMicroTime(time.Unix(o.Renewed, 0)), int32(lasts/time.Second)
		lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = &renewed, &seconds
	} else if len(lease.OwnerReferences) == 0 {
		lease.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Pod", Name: o.Pod.Name, UID: o.Pod.UID,
		}}
	}
	lease.Spec.HolderIdentity = &o.Identity
	return lease
}

// read returns the content of a presence. A text too long to make sense reads as absent.
func read(lease *coordinationv1.Lease, lock string) Object {
	o := Object{Lock: lock, Pod: podOf(lease), Name: lease.Name, UID: lease.UID, Number: record.Number(lease.ResourceVersion)}
	if at := lease.Spec.RenewTime; at != nil && o.Pod == (Pod{}) {
		o.Renewed = at.Unix()
	}
	if holder := lease.Spec.HolderIdentity; holder != nil && len(*holder) <= record.MaxText {
		o.Identity = *holder
	}
	for key, text := range o.annotations() {
		if said := lease.Annotations[key]; len(said) <= record.MaxText {
			*text = said
		}
	}
	return o
}

// podOf returns the pod that owns a presence, or none if it does not have exactly one owner.
func podOf(lease *coordinationv1.Lease) Pod {
	refs := lease.OwnerReferences
	if len(refs) != 1 || refs[0].Kind != "Pod" || refs[0].APIVersion != corev1.SchemeGroupVersion.String() {
		return Pod{}
	}
	return Pod{Name: refs[0].Name, UID: refs[0].UID}
}

// name returns the name of a presence. No pod has that name: it holds a hash of a UID that was given
// after the pod had its name, or of an identity. That matters because leader-for-life takes an owner
// with its own pod's name for itself, whatever its kind.
func (o Object) name() string {
	lock, pod := o.Lock, o.Pod
	if pod == (Pod{}) {
		return shortened(lock, validation.DNS1123SubdomainMaxLength, ".", hash(lock+"//"+o.Identity))
	}
	return shortened(lock+"."+pod.Name, validation.DNS1123SubdomainMaxLength, ".", hash(lock+"/"+string(pod.UID)))
}

// labelOf returns the value of the label for a lock.
func labelOf(lock string) string {
	if len(lock) <= validation.LabelValueMaxLength {
		return lock
	}
	return shortened(lock, validation.LabelValueMaxLength, "-", hash(lock))
}

// selector selects the presences of a lock.
func selector(lock string) string { return Label + "=" + labelOf(lock) }

// shortened returns text + sep + end in at most that many bytes, by cutting text where a name
// may end.
func shortened(text string, most int, sep, end string) string {
	text = text[:min(len(text), most-len(sep)-len(end))]
	return strings.TrimRight(text, "-.") + sep + end
}

// hash returns ten digits that stand for text.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:5])
}
