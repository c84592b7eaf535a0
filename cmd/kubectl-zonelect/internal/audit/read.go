// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// labelServer marks the Lease by which an API server announces itself.
const labelServer = "apiserver.kubernetes.io/identity"

// OfLease reads a Lease. is is false if that is no election: a heartbeat, an announcement, or empty.
func OfLease(lease *coordinationv1.Lease) (e Election, is bool) {
	_, candidate := lease.Labels[presence.Label]
	_, server := lease.Labels[labelServer]
	s, ofNode := lease.Spec, lease.Namespace == corev1.NamespaceNodeLease
	if candidate || server || ofNode || s.HolderIdentity == nil && s.LeaseDurationSeconds == nil && s.RenewTime == nil {
		return Election{}, false
	}
	on := inspect.Election{Lease: lease}
	e = electionOn(OnLease, lease.ObjectMeta)
	l := on.Leader()
	e.LeaseDurationSeconds, e.Phase = int64(on.Lasts()/time.Second), string(record.ReadStage(lease.Annotations).Phase)
	if e.Renewed = s.RenewTime; l == nil {
		return e, true
	}
	_, e.Zonelect = inspect.DetailsOf(on.Snapshot().Record)
	e.Holder = l.Identity
	e.podName, e.uid, _ = strings.Cut(l.Pod, "/")
	return e, true
}

// OfObject reads the election record, or the leader-for-life lock, among the metadata of a ConfigMap or Endpoints.
// A ConfigMap is such a lock if it has one owner, a pod, and no data, as the field managers say. Without these it is not
// known, and counts as none.
func OfObject(kind Kind, o *metav1.PartialObjectMetadata) (e Election, is bool) {
	if text := o.Annotations[resourcelock.LeaderElectionRecordAnnotationKey]; text != "" {
		e = electionOn(kind, o.ObjectMeta)
		r, err := record.ParseElected(text)
		if e.foreign = err != nil; e.foreign { // other libraries write their own: who holds it is read of these, too
			var other struct {
				Holder string `json:"holderIdentity"`
			}
			_ = json.Unmarshal([]byte(text), &other) // then nobody is known to hold it
			r.HolderIdentity = other.Holder
		}
		e.Holder, e.Renewed = record.Identity(r.HolderIdentity), &metav1.MicroTime{Time: r.RenewTime.Time}
		e.LeaseDurationSeconds = int64(r.LeaseDuration() / time.Second)
		return e, true
	}
	r := ownerref.Recognize(&corev1.ConfigMap{ObjectMeta: o.ObjectMeta})
	if kind != OnConfigMap || r.Kind != ownerref.Legacy || len(o.ManagedFields) == 0 || hasData(o.ManagedFields) {
		return Election{}, false
	}
	e = electionOn(IsForLife, o.ObjectMeta)
	e.podName, e.uid, e.Holder = r.Owner.Name, string(r.Owner.UID), "pod/"+r.Owner.Name
	return e, true
}

// electionOn begins an election with what each object says.
func electionOn(kind Kind, meta metav1.ObjectMeta) Election {
	last := metav1.ManagedFieldsEntry{}
	for _, f := range meta.ManagedFields {
		if f.Subresource == "" && (last.Time == nil || f.Time != nil && !f.Time.Before(last.Time)) {
			last = f
		}
	}
	return Election{Kind: kind, Namespace: meta.Namespace, Name: meta.Name, Writer: last.Manager}
}

func hasData(fields []metav1.ManagedFieldsEntry) bool {
	for _, f := range fields {
		for _, field := range []string{`"f:data"`, `"f:binaryData"`} {
			if f.FieldsV1 != nil && bytes.Contains(f.FieldsV1.GetRawBytes(), []byte(field)) {
				return true
			}
		}
	}
	return false
}
