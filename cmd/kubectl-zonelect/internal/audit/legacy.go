// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// Records reads the election records among the metadata of ConfigMaps or Endpoints, as they were before
// the Leases were watched and after that. Both lists may be nil.
func Records(kind Kind, before, after []metav1.PartialObjectMetadata, began, ended time.Time) []Election {
	first := map[string]string{}
	for _, o := range before {
		first[o.Namespace+"/"+o.Name] = o.Annotations[resourcelock.LeaderElectionRecordAnnotationKey]
	}
	var all []Election
	for _, o := range after {
		text := o.Annotations[resourcelock.LeaderElectionRecordAnnotationKey]
		if text == "" {
			continue
		}
		now, foreign := stateOfRecord(text, ended)
		now.Blind = true
		e := Election{
			Kind: kind, Namespace: o.Namespace, Name: o.Name, Writer: writerOf(o.ManagedFields), Created: o.CreationTimestamp.Time,
			Foreign: foreign, States: []State{now},
		}
		if was := first[o.Namespace+"/"+o.Name]; was != "" {
			then, _ := stateOfRecord(was, began)
			then.Blind = true
			e.States = []State{then, now}
		}
		all = append(all, e)
	}
	return all
}

// stateOfRecord reads a record. Other libraries write records of their own there: who holds it is read of
// these too.
func stateOfRecord(text string, at time.Time) (s State, foreign bool) {
	s.At = at
	if r, err := record.ParseElected(text); err == nil {
		s.Holder, s.Lease, s.Renewed = record.Identity(r.HolderIdentity), r.LeaseDuration(), r.RenewTime.Time
		s.Changes = int32(min(r.LeaderTransitions, 1<<31-1))
		return s, false
	}
	var other struct {
		HolderIdentity       string          `json:"holderIdentity"`
		LeaseDuration        json.Number     `json:"leaseDuration"` // fabric8's, in seconds
		LeaseDurationSeconds json.RawMessage `json:"leaseDurationSeconds"`
		RenewTime            string          `json:"renewTime"`
	}
	if json.Unmarshal([]byte(text), &other) != nil {
		return s, true
	}
	s.Holder = record.Identity(other.HolderIdentity)
	seconds, _ := other.LeaseDuration.Float64()
	if text, err := strconv.Unquote(string(other.LeaseDurationSeconds)); err == nil { // Python's
		seconds, _ = strconv.ParseFloat(text, 64)
	}
	const most = float64(1<<62) / float64(time.Second)
	s.Lease = time.Duration(min(max(0, seconds), most) * float64(time.Second))
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999"} {
		if t, err := time.Parse(layout, other.RenewTime); err == nil {
			s.Renewed = t
			break
		}
	}
	return s, true
}

// ForLife reads the leader-for-life locks among the metadata of ConfigMaps: those that have one owner,
// a pod, and no data, as the field managers say. Without these it is not known whether a ConfigMap
// that a pod owns is a lock, and it counts as none.
func ForLife(all []metav1.PartialObjectMetadata, at time.Time) []Election {
	var found []Election
	for _, o := range all {
		r := ownerref.Recognize(&corev1.ConfigMap{ObjectMeta: o.ObjectMeta})
		if r.Kind != ownerref.Legacy || len(o.ManagedFields) == 0 || hasData(o.ManagedFields) {
			continue
		}
		found = append(found, Election{
			Kind: IsForLife, Namespace: o.Namespace, Name: o.Name, Writer: writerOf(o.ManagedFields), Created: o.CreationTimestamp.Time,
			Owner: r.Owner, States: []State{{At: at, Holder: "pod/" + r.Owner.Name}},
		})
	}
	return found
}

func hasData(fields []metav1.ManagedFieldsEntry) bool {
	for _, f := range fields {
		if f.FieldsV1 != nil && (bytes.Contains(f.FieldsV1.GetRawBytes(), []byte(`"f:data"`)) || bytes.Contains(f.FieldsV1.GetRawBytes(), []byte(`"f:binaryData"`))) {
			return true
		}
	}
	return false
}
